"""The engines that run the SQL of a program: DuckDB and Spark."""
