"""All that needs a Spark session."""
