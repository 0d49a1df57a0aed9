"""Runyard's speed figures, each beside what it is compared with: `python -m benchmarks`.

__main__        the command
noop … killed   one module a benchmark; each returns figures
figures         a figure, its target, the table
rounds          paired rounds, and calls in a fresh interpreter
work            the functions that tasks run
"""
