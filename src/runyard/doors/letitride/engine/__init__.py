"""Plays sessions: the compiled kernel, and the plain reference beside it."""
