"""The bench itself: what a user calls, and the results."""
