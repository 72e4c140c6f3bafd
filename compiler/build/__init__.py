"""The implementation of ``flintlog build``."""
