"""One run as a task of a batch."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from runyard.attempt.context import Context
from runyard.attempt.load import load
from runyard.doors.malice.logs.audit import AuditLogger
from runyard.doors.malice.run.experiment import Config, MaliceExperiment, Parts
from runyard.doors.malice.society.immune import Mode as ImmuneMode
from runyard.doors.malice.society.rules import Rules
from runyard.errors import BadTarget
from runyard.reports.progress import ALERT_KIND
from runyard.spaces import inside
from runyard.spec.task import Target

if TYPE_CHECKING:
    from runyard.doors.malice.run.models import Moderation
    from runyard.llm import Mode

TICKETS_KIND = "tickets"
"""The kind of event that reports the progress of a long run."""

PAUSE = 0.5
"""Seconds between two such events."""

FOLDER = "malice"


def malice(
    ctx: Context,
    *,
    tickets: int = 60,
    immune: ImmuneMode = "logged",
    without: Sequence[str] = (),
    rules: Mapping[str, float] | None = None,
    parts: str | None = None,
    model: str | None = None,
    llm: Mode = "live",
    tape: str | None = None,
    moderation: Moderation = "model",
    name: str | None = None,
) -> dict[str, Any]:
    """Play one run and log it; `name` is the variant, `parts` names what makes `Parts`.

    With a `model`, it speaks for the agents.
    """
    config = Config(
        run_id=ctx.replicate + 1,
        seed=ctx.seed,
        tickets=tickets,
        immune=immune,
        without=tuple(without),
        rules=Rules.of(rules or {}),
    )
    whose = "" if name is None else f"{name}, "

    def play(made: Parts) -> dict[str, Any]:
        log = AuditLogger(logs_folder(ctx.folder, name), config.run_id, tickets, config.rules)
        record = MaliceExperiment(config, made).run(
            log,
            alert=lambda message: ctx.emit(ALERT_KIND, message=whose + message),
            progress=_Pulse(ctx, tickets),
        )
        log.finish()
        return record

    if model is None:
        return play(parts_of(parts))
    from runyard.doors.malice.run.models import play_with_model

    cell = f"{whose}run {config.run_id}, seed {ctx.seed}"
    return play_with_model(play, cell, model, llm, tape, moderation)


def logs_folder(batch_folder: Path, name: str | None) -> Path:
    """The folder of the logs and results of a batch, or of one of its variants."""
    home = batch_folder / FOLDER
    return home if name is None else inside(home, name.replace(" ", "-"))


def parts_of(text: str | None) -> Parts:
    """Call `module:function`; the published parts if none is named."""
    if text is None:
        return Parts()
    maker = parts_maker(text, os.getcwd())
    hint = "it must take no arguments and return runyard.doors.malice.Parts"
    try:
        made = maker()
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{at.filename}:{at.lineno}"
        raise BadTarget(
            f"{text} failed at {where}: {type(error).__name__}: {error}", hint=hint
        ) from error
    if not isinstance(made, Parts):
        raise BadTarget(f"{text} returns {type(made).__name__}", hint=hint)
    return made


def parts_maker(text: str, root: str) -> Callable[[], Any]:
    """Load `module:function` or `file.py:function`, from the file as it is now."""
    target = Target.parse(text)
    file = Path(root, target.ref.rpartition(":")[0])
    written = file.stat().st_mtime_ns if target.kind == "file" and file.is_file() else 0
    return _loaded(target, root, written)


@lru_cache(16)
def _loaded(target: Target, root: str, written: int) -> Callable[[], Any]:  # noqa: ARG001
    return load(target, root)


class _Pulse:
    """Reports the progress of a run that takes long."""

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
