"""Output for reviewers of programs: explanations, certificates, comparisons and report pages."""
