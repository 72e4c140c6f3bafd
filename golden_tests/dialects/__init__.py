"""Tests of the frontends for other languages."""
