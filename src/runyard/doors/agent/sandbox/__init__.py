"""Runs untrusted programs under limits."""
