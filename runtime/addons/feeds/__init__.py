"""Feeds: what delivers the rows of input relations and their changes, from a cursor on."""
