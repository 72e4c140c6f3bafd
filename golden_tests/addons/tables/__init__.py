"""Output relations as tables of other formats."""
