"""Tests of the support blocks of generated jobs: state, inputs, commands, progress."""
