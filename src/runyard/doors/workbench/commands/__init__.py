"""`runyard workbench`: its commands."""
