"""Why a run ended."""

from __future__ import annotations

import enum


class End(enum.Enum):
    """Why a run ended; all but FINISHED and CANCELLED can be resumed."""

    FINISHED = "finished"
    STOPPED = "stopped"  # on request
    INTERRUPTED = "interrupted"  # by a signal
    DEADLINE = "deadline"
    FAIL_FAST = "fail-fast"
    BUDGET = "budget"
    LIMIT = "limit"  # as many tasks as this run was asked for
    METRIC = "missing metric"  # tasks don't return what the budget is about
    CANCELLED = "cancelled"
    YIELDED = "yielded"  # other engines hold what is left, or something more urgent waits
    OUTGROWN = "outgrown"  # the batch has grown; an engine that starts anew knows its new plan
