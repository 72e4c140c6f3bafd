"""Spark 4.1 with the connectors of Delta and Iceberg, in an environment of its own."""
