"""``flintlog report``: a program and all that becomes of it, on one page for those who review it."""
