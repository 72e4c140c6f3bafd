"""The state of a job: manifests, commits and data files, how strata run on it, and publication."""
