"""`runyard queue …` and `runyard mcp`."""
