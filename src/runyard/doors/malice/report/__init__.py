"""Results of runs: statistics, text, tables and pictures."""
