"""The frontend for the core of DDlog."""
