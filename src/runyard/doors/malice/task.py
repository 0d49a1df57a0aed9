"""One run as a task of an ordinary batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

from runyard.attempt.context import Context
from runyard.attempt.load import load
from runyard.doors.malice.audit import AuditLogger
from runyard.doors.malice.experiment import Config, MaliceExperiment, Parts
from runyard.doors.malice.immune import Mode
from runyard.doors.malice.rules import Rules
from runyard.errors import BadTarget
from runyard.reports.progress import ALERT_KIND
from runyard.spec.names import slug
from runyard.spec.task import Target

TICKETS_KIND = "tickets"
"""What a run that takes its time emits to say how far it is."""

PAUSE = 0.5
"""Seconds between two of those."""

FOLDER = "malice"


def malice(
    ctx: Context,
    *,
    tickets: int = 60,
    immune: Mode = "logged",
    without: Sequence[str] = (),
    rules: Mapping[str, float] | None = None,
    parts: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Play one run and log it; `name` is that of a variant, `parts` a function that makes them."""
    config = Config(
        run_id=ctx.task + 1,
        seed=ctx.seed,
        tickets=tickets,
        immune=immune,
        without=tuple(without),
        rules=Rules.of(rules or {}),
    )
    log = AuditLogger(logs_folder(ctx.folder, name), config.run_id, tickets, config.rules)
    record = MaliceExperiment(config, parts_of(parts)).run(
        log,
        alert=lambda message: ctx.emit(ALERT_KIND, message=message),
        progress=_Pulse(ctx, tickets),
    )
    log.finish()
    return record


def logs_folder(batch_folder: Path, name: str | None) -> Path:
    """Where the logs and results of a batch are, or of one of its variants."""
    home = batch_folder / FOLDER
    return home if name is None else home / slug(name)


def parts_of(text: str | None) -> Parts:
    """What `module:function` makes; the published parts where nothing is named."""
    if text is None:
        return Parts()
    made = _maker(text, os.getcwd())()
    if not isinstance(made, Parts):
        raise BadTarget(
            f"{text} makes {type(made).__name__}", hint="it has to return runyard's malice Parts"
        )
    return made


@lru_cache(16)
def _maker(text: str, root: str) -> Callable[[], Any]:
    return load(Target.parse(text), root)


class _Pulse:
    """Says how far a run is, where that takes long enough to ask."""

    def __init__(self, ctx: Context, tickets: int) -> None:
        self._ctx = ctx
        self._tickets = tickets
        self._next = monotonic() + PAUSE
        self._told = False

    def __call__(self, done: int) -> None:
        last = done == self._tickets
        if (last and self._told) or (not last and monotonic() >= self._next):
            self._next, self._told = monotonic() + PAUSE, True
            self._ctx.emit(TICKETS_KIND, done=done)
