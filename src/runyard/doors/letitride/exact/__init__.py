"""Exact answers: every deal counted, nothing sampled."""
