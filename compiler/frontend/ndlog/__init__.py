"""The frontend for NDlog as RapidNet writes it."""
