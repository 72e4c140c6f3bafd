"""Fixtures of the tools of others."""

from golden_tests.integrations.browser import browser

__all__ = ["browser"]
