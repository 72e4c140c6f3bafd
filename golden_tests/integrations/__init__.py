"""The tools of others that Flintlog is used with."""
