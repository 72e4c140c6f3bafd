"""Tests of the language: programs in their golden cases, functions, types, names and messages."""
