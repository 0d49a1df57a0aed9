"""One run: the experiment, what is kept of it, and the task that the engine runs."""
