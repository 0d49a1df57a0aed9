"""The two logs of one run: what was decided, and beside it what was said and adjusted.

    malice_<stamp>_p<PID>_r<RUN>_t<TICKETS>.jsonl
    debug/malice_<stamp>_p<PID>_r<RUN>_t<TICKETS>_debug.jsonl

Times inside are virtual, so that a seed gives the same bytes everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from io import BufferedWriter
from pathlib import Path
from typing import Literal, TypeGuard

import msgspec

from runyard import clock
from runyard.doors.malice.formats import Format
from runyard.doors.malice.gates import Decision
from runyard.doors.malice.immune import Adjusted, ImmuneRules
from runyard.doors.malice.lines import Details, Line
from runyard.doors.malice.rules import Rules
from runyard.doors.malice.state import Event, StatusChanged, User, VoteCounted

DEBUG = "debug"
PARTIAL = ".partial"
PARTIALS = "partial"
FLUSHED_AT = 2000
"""Lines that are held before they are written."""

LEAST_BLOCK = 1000
SECONDS_KEPT = 1 << 13
_encode_lines = msgspec.json.Encoder().encode_lines
_BEGIN = datetime(1970, 1, 1)  # of virtual time, which has no zone
_FILE = re.compile(r"malice_.*_p\d+_r(?P<run>\d+)_t\d+(?:_debug)?\.jsonl")


def first_ticket(run_id: int, tickets: int) -> int:
    """The first number of a run's own block of tickets; blocks never meet, however many tickets."""
    width = LEAST_BLOCK
    while width < tickets:
        width *= 10
    return run_id * width + 1


def run_of(path: Path) -> int | None:
    """The run that a log belongs to, by its name."""
    named = _FILE.fullmatch(path.name)
    return None if named is None else int(named["run"])


class AuditLogger:
    """Writes both logs of one run; they appear in their folder when they are whole.

    Until then they grow in the folder `partial`, which runs share: to make and remove a folder for
    each would take longer than the run.
    """

    def __init__(
        self, folder: Path, run_id: int = 1, tickets: int = 60, rules: Rules | None = None
    ) -> None:
        stamp = datetime.fromtimestamp(clock.now()).astimezone()
        name = f"malice_{stamp:%y%m%d_%Hh%Mm%Ss}_p{os.getpid()}_r{run_id:02}_t{tickets}"
        self._form = Format(run_id, first_ticket(run_id, tickets), rules)
        self._placed = (
            Path(f"{folder}/{name}.jsonl"), Path(f"{folder}/{DEBUG}/{name}_debug.jsonl")
        )  # fmt: skip
        # Each process has a folder of its own there, since making a file locks the one it is in.
        growing = f"{folder}/{PARTIALS}/{os.getpid()}"
        self._partial = tuple(Path(f"{growing}/{path.name}{PARTIAL}") for path in self._placed)
        self._held: tuple[list[Line], list[Line]] = ([], [])
        self._begun = False

    def ticket(
        self,
        ticket: int,
        author: User,
        text: str,
        time: float,
        decisions: Sequence[Decision],
        events: Sequence[Event],
    ) -> None:
        """What was said in a ticket, by an author as it was before, and what came of it."""
        form, stamp = self._form, _stamp(time)
        place = form.place(ticket, author.name)
        main, debug = self._held
        said = form.message(ticket, text, place)
        debug.append(Line(stamp, said.kind, said))
        for made in decisions:
            for line in form.decision(made, author.status, place):
                main.append(Line(stamp, line.kind, line))
        for event in events:
            for line in form.event(event, place):
                main.append(Line(stamp, line.kind, line))
            if _has_metric(event):
                metric = form.metric(event, place)
                debug.append(Line(stamp, metric.kind, metric))
        if len(main) >= FLUSHED_AT:
            self._flush()

    def rose(self, event: StatusChanged, so_far: int, time: float) -> None:
        """Somebody was promoted."""
        self._note(time, self._form.rise(event, so_far))

    def adjusted(self, adjusted: Adjusted, author: str, rules: ImmuneRules, time: float) -> None:
        """The immune system did something."""
        self._note(time, self._form.immune(adjusted, author, rules))

    def finish(self) -> tuple[Path, Path]:
        """The logs are whole: put them in place under their names."""
        self._flush()
        for partial, path in zip(self._partial, self._placed, strict=True):
            try:
                partial.replace(path)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                partial.replace(path)
        return self._placed

    def _note(self, time: float, details: Details) -> None:
        self._held[1].append(Line(_stamp(time), details.kind, details))

    def _flush(self) -> None:
        # A run that was begun before, by a process of the same number, leaves nothing behind here.
        mode: Literal["ab", "wb"] = "ab" if self._begun else "wb"
        for partial, held in zip(self._partial, self._held, strict=True):
            with _opened(partial, mode) as file:
                file.write(_encode_lines(held))
            held.clear()
        self._begun = True


def _opened(path: Path, mode: Literal["ab", "wb"]) -> BufferedWriter:
    try:
        return path.open(mode)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open(mode)


def _has_metric(event: Event) -> TypeGuard[VoteCounted | StatusChanged]:
    if isinstance(event, VoteCounted):
        return event.weight != event.vote.value
    return isinstance(event, StatusChanged)


def _stamp(time: float) -> str:
    seconds, milliseconds = divmod(round(time * 1000), 1000)
    return f"{_second(seconds)}.{milliseconds:03}"


@lru_cache(SECONDS_KEPT)
def _second(seconds: int) -> str:
    return (_BEGIN + timedelta(seconds=seconds)).isoformat()
