"""The two logs of one run: decisions in one, messages and adjustments in the other.

    malice_<stamp>_p<PID>_r<RUN>_t<TICKETS>.jsonl
    debug/malice_<stamp>_p<PID>_r<RUN>_t<TICKETS>_debug.jsonl

Times in the logs are virtual, so a seed gives the same bytes everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from io import BufferedWriter
from pathlib import Path
from typing import TypeVar

import msgspec

from runyard import clock
from runyard.doors.malice.logs.transcript import Place, Transcript
from runyard.doors.malice.society.gates import Ruling
from runyard.doors.malice.society.immune import Adjusted, ImmuneRules
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import StatusChanged, User, VoteEvent

T = TypeVar("T")
DEBUG = "debug"
PARTIAL = ".partial"
PARTIALS = "partial"
FLUSHED_AT = 2000
"""Number of lines that are buffered before they are written."""

LEAST_BLOCK = 1000
MINUTES_KEPT = 1 << 10
_encode_lines = msgspec.json.Encoder().encode_lines
_BEGIN = datetime(1970, 1, 1)  # of virtual time, which has no time zone
_FILE = re.compile(r"malice_.*_p\d+_r(?P<run>\d+)_t\d+(?:_debug)?\.jsonl")


def first_ticket(run_id: int, tickets: int) -> int:
    """The first ticket number of a run; the blocks of two runs never overlap."""
    width = LEAST_BLOCK
    while width < tickets:
        width *= 10
    return run_id * width + 1


def run_of(path: Path) -> int | None:
    """The run that a log belongs to, from its file name."""
    named = _FILE.fullmatch(path.name)
    return None if named is None else int(named["run"])


class AuditLogger:
    """Writes both logs of one run; they appear in their folder when they are complete.

    Until then they are in the folder `partial`, which runs share: making and removing a folder for
    each run would take longer than the run.
    """

    def __init__(
        self, folder: Path, run_id: int = 1, tickets: int = 60, rules: Rules | None = None
    ) -> None:
        process = os.getpid()
        name = f"malice_{_begun_at(int(clock.now()))}_p{process}_r{run_id:02}_t{tickets}"
        self._lines = Transcript(run_id, first_ticket(run_id, tickets), rules)
        # Text, since `Path` objects for each run would take longer than the system calls.
        self._placed = f"{folder}/{name}.jsonl", f"{folder}/{DEBUG}/{name}_debug.jsonl"
        # Each process has its own folder there, since creating a file locks its folder.
        growing = f"{folder}/{PARTIALS}/{process}/{name}"
        self._growing = f"{growing}.jsonl{PARTIAL}", f"{growing}_debug.jsonl{PARTIAL}"
        self._begun = False

    def ticket(
        self,
        ticket: int,
        author: User,
        text: str,
        time: float,
        decisions: Sequence[Ruling],
        events: Sequence[VoteEvent],
    ) -> None:
        """Log a ticket: its author as of before, the message, decisions and events."""
        lines = self._lines
        place = self._place(ticket, author.name, time)
        lines.message(ticket, text, place)
        lines.decisions(decisions, author.status, place)
        lines.events(events, place)
        if len(lines.main) >= FLUSHED_AT:
            self._flush()

    def promoted(self, event: StatusChanged, so_far: int, time: float) -> None:
        """Log a promotion."""
        self._lines.rise(event, so_far, self._place(event.ticket, event.author, time))

    def adjusted(self, adjusted: Adjusted, author: str, rules: ImmuneRules, time: float) -> None:
        """Log an adjustment of the immune system."""
        self._lines.immune(adjusted, rules, self._place(adjusted.ticket, author, time))

    def finish(self) -> tuple[Path, Path]:
        """Complete the logs, and move them to their folders."""
        self._flush()
        for growing, path in zip(self._growing, self._placed, strict=True):
            _in_its_folder(path, partial(os.replace, growing, path))
        main, debug = self._placed
        return Path(main), Path(debug)

    def _place(self, ticket: int, author: str, time: float) -> Place:
        return self._lines.place(ticket, author, _stamp(time))

    def _flush(self) -> None:
        for path, held in zip(self._growing, (self._lines.main, self._lines.debug), strict=True):
            with _in_its_folder(path, partial(_opened, path, self._begun)) as file:
                file.write(_encode_lines(held))
            held.clear()
        self._begun = True


def _opened(path: str, begun: bool) -> BufferedWriter:
    # The first write truncates what a process with the same id may have left.
    return open(path, "ab" if begun else "wb")  # noqa: PTH123


def _in_its_folder(path: str, act: Callable[[], T]) -> T:
    """Create a file; create its folder only if it is missing, which is rare."""
    try:
        return act()
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return act()


@lru_cache(1)
def _begun_at(second: int) -> str:
    return f"{datetime.fromtimestamp(second).astimezone():%y%m%d_%Hh%Mm%Ss}"


def _stamp(time: float) -> str:
    minute, left = divmod(round(time * 1000), 60_000)
    return f"{_minute(minute)}:{left / 1000:06.3f}"


@lru_cache(MINUTES_KEPT)
def _minute(number: int) -> str:
    return (_BEGIN + timedelta(minutes=number)).isoformat(timespec="minutes")
