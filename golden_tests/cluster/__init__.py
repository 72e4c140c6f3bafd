"""Jobs on a Spark standalone cluster, and through Spark Connect."""
