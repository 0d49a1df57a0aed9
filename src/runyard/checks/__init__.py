"""Rerun what is recorded and compare; check a yard's files and clear away what is left behind."""
