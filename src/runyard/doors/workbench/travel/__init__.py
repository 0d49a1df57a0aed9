"""Time travel: exact copies of a thread up to a checkpoint, and prefixes that variants share."""
