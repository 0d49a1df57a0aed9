"""Benches as pytest tests."""
