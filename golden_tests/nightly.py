"""What tests do when there is a whole night: ``make nightly``, which sets ``FLINTLOG_NIGHTLY=1``.

By day all random choices are the same every time. At night they are many more, and new ones; a test that fails then
says the number of its program, and ``golden_tests/random_search.py`` finds it again.
"""

from __future__ import annotations

import os
import random

import pytest

NIGHTLY = os.environ.get("FLINTLOG_NIGHTLY", "") not in ("", "0")
START = random.SystemRandom().randrange(10**6, 10**9) if NIGHTLY else 0
"""The number of the first random program."""

AT_NIGHT = pytest.mark.skipif(not NIGHTLY, reason="takes long, and another test does the most of it: make nightly")
