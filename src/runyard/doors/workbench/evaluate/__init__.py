"""Scores of cells."""
