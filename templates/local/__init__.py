"""Templates of programs that run in this process, in one DuckDB database."""
