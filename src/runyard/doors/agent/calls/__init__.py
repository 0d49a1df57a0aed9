"""The functions that come with the queue; each is an ordinary function that a worker calls."""
