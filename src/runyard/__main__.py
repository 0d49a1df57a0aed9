"""Where the command line starts: `runyard` and `python -m runyard`."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command line; until it has been loaded, Ctrl-C ends this process silently."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from runyard.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
