"""Reads a batch of logs: the public dataset's, in both of its layouts, and this door's.

    DIR/events/malice_…_r01_….jsonl    DIR/metrics/malice_…_r01_…_metrics_….jsonl
    DIR/malice_…_r01_….jsonl           DIR/debug/malice_…_r01_…_debug.jsonl (or next to it)

All files of a run are read together, so a message may be in any of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runyard.doors.malice.logs.lines import AgentMessage
from runyard.errors import NotFound, UsageError
from runyard.spaces import read_text

FOLDERS = ("", "events", "metrics", "debug")
_NAME = re.compile(r"(?P<key>.*_p\d+_r(?P<run>\d+)_t(?P<tickets>\d+))(?:_.*)?\.jsonl")


@dataclass(frozen=True)
class Logged:
    """One line of a log, and its location."""

    file: Path
    line: int
    kind: str
    details: dict[str, Any]

    @property
    def where(self) -> str:
        """The location as text."""
        return f"{self.file.name}:{self.line}"


@dataclass
class LoggedRun:
    """Everything logged in one run, in order."""

    run: int
    files: list[Path] = field(default_factory=list)
    messages: list[Logged] = field(default_factory=list)
    events: list[Logged] = field(default_factory=list)


@dataclass(frozen=True)
class LoggedBatch:
    """A folder of runs, with the summary published in it."""

    folder: Path
    runs: list[LoggedRun]
    summary_file: Path | None
    summary: dict[str, Any]

    @property
    def rules(self) -> dict[str, Any]:
        """The changed numbers of the rules, according to the summary."""
        about = self.summary.get("experiment_metadata")
        told = about.get("rules") if isinstance(about, dict) else None
        return told if isinstance(told, dict) else {}


def read_batch(folder: Path) -> LoggedBatch:
    """Read the runs in a folder, by number; refuse a folder without runs."""
    if not folder.is_dir():
        raise NotFound(f"folder not found: {folder}", hint="name the folder of a batch")
    runs: dict[str, LoggedRun] = {}
    for place in FOLDERS:
        for path in sorted((folder / place).glob("*.jsonl")):
            named = _NAME.fullmatch(path.name)
            if named is None:
                continue
            run = runs.setdefault(named["key"], LoggedRun(int(named["run"])))
            run.files.append(path)
            for logged in _lines(path):
                (run.messages if logged.kind == AgentMessage.kind else run.events).append(logged)
    found = sorted(runs.values(), key=lambda run: run.run)
    if not any(run.messages for run in found):
        raise NotFound(
            f"{folder} has no runs",
            hint="a batch has event files (malice_…_r01_….jsonl) with the agents' messages, at "
            "its root or in its folders events and metrics",
        )
    told = _summary_file(folder)
    return LoggedBatch(folder, found, told, {} if told is None else _summary(told))


def batch_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a batch, otherwise the batches in it."""
    if not folder.is_dir():
        raise NotFound(f"folder not found: {folder}", hint="name the folder of a batch")
    inside = sorted(each for each in folder.iterdir() if each.is_dir() and _is_batch(each))
    return [folder] if _is_batch(folder) or not inside else inside


def _is_batch(folder: Path) -> bool:
    return any(
        _NAME.fullmatch(path.name)
        for place in ("", "events")
        for path in (folder / place).glob("*.jsonl")
    )


def _lines(path: Path) -> Iterator[Logged]:
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                record = json.loads(text.decode())
                kind, details = record["event_type"], record["details"]
                if not isinstance(details, dict):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                raise UsageError(
                    f"{path}:{number} is not an event",
                    hint="each line is a JSON object in UTF-8 with event_type and details",
                ) from None
            yield Logged(path, number, str(kind), details)


def _summary_file(folder: Path) -> Path | None:
    places = [*folder.glob("batch_results/*.json"), *folder.glob("batch_parallel*.json")]
    return min(places, default=None)


def _summary(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="restore or remove it") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is not the summary of a batch", hint="restore or remove it")
    return found
