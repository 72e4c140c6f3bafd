"""Output relations kept as tables of other formats, brought up to date after each commit."""
