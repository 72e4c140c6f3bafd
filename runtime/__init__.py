"""The runtime: runs the jobs that keep the views of a compiled program exact while its inputs change."""
