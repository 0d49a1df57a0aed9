"""Simulations as batches: run once, or until a condition holds."""
