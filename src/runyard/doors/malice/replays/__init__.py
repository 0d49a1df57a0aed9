"""Batches of logs replayed, checked against themselves and calibrated against simulations."""
