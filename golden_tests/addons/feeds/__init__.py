"""Feeds: tables, topics and folders that the rows of input relations come from."""
