"""State in stores and on file systems that only Spark opens."""
