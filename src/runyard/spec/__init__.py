"""What to run: pure data, no I/O."""
