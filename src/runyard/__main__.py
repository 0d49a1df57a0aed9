"""`python -m runyard`."""

from __future__ import annotations

import sys

from runyard.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
