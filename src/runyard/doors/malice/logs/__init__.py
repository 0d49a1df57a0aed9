"""The logs of a run: written, and read again."""
