"""The background process that runs a queue."""
