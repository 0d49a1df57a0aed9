"""The functions that tasks can name."""
