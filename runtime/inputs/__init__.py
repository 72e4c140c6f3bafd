"""Find, read and validate input rows, and stage them as Parquet files."""
