"""What is to be run, as plain data: variants, cases and settings. Never imports LangGraph."""
