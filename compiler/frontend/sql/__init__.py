"""SQL: tables are inputs, views are relations."""
