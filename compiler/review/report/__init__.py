"""The HTML page of ``flintlog report``: a program and everything compiled from it, for reviewers."""
