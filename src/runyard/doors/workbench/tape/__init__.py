"""The tape: checkpoints in memory while a cell runs, then in a file that LangGraph itself opens."""
