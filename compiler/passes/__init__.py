"""The passes, one file each; ``pipeline.PASSES`` is their order."""
