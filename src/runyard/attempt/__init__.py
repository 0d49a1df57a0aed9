"""What happens inside a worker: a task's function, its context, limits, output and encoding."""
