"""Tests of add-ons that have no folder of their own."""
