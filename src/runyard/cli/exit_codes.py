"""The exit codes of the program; errors have theirs in `RunyardError.exit_code`."""

from __future__ import annotations

import signal

EXIT_CODES = """\b
Exit codes:
  0 ok               4 gate failed           124 deadline
  1 tasks failed     5 nothing found         130 interrupted
  2 usage            75 budget reached       143 terminated
  3 engine error"""

EXIT_FAILED, EXIT_USAGE, EXIT_ENGINE, EXIT_GATE, EXIT_BUDGET, EXIT_DEADLINE = 1, 2, 3, 4, 75, 124
EXIT_SIGNAL = 128
"""Plus the number of the signal that ended the program."""


def code_of(end: BaseException) -> int:
    """The exit code of what a signal, or a `sys.exit`, ended."""
    if not isinstance(end, SystemExit):
        return EXIT_SIGNAL + signal.SIGINT
    return end.code if isinstance(end.code, int) else EXIT_FAILED
