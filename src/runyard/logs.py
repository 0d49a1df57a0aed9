"""Log messages on stderr, by `RUNYARD_LOG`.

`warning` has what goes wrong, `info` also the course of runs, `debug` also each claim, chunk,
report and commit.
"""

from __future__ import annotations

import logging
import os
from functools import cache

from runyard.errors import UsageError

LEVELS = ("debug", "info", "warning", "error")


@cache
def configure() -> None:
    """Write Runyard's log messages to stderr if `$RUNYARD_LOG` says so; once per process."""
    level = os.environ.get("RUNYARD_LOG", "").lower()
    if not level:
        return
    if level not in LEVELS:
        raise UsageError(f"RUNYARD_LOG is {level!r}", hint=f"use one of: {', '.join(LEVELS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("runyard")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
