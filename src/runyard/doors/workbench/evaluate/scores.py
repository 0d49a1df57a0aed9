"""Scores of cells: computed from what is recorded, and kept beside it.

    cells ──▶ evaluators ──▶ <batch>/scores.json ──▶ results, gates, reports, in any process

A judge's score is kept with a hash of what it was computed from, so that a bench that is run again
asks no judge a second time. Missing scores are computed again.
"""

from __future__ import annotations

import contextvars
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runyard.doors.workbench.evaluate.evaluators import (
    INTERRUPTED,
    MEASURED,
    Better,
    Evaluator,
    Score,
    Scored,
)
from runyard.errors import StoreError
from runyard.events.plain import json_safe
from runyard.spaces import whole_file
from runyard.spec.codec import encode
from runyard.spec.fingerprint import fingerprint

FILE = "scores.json"
FORMAT = 1
AT_ONCE = 8
"""How many judges are asked at the same time."""


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """How scores of an evaluator are compared with earlier ones."""

    better: Better = "higher"
    tolerance: float | None = 0.0  # None: they vary from run to run


class ScoreBook:
    """The scores of a batch, by evaluator and thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rules: dict[str, ScoreRule] = {}  # by evaluator, in the order of evaluation
        self._cells: dict[str, dict[str, dict[str, Any]]] = {}
        if path.is_file():
            self._load()

    def _load(self) -> None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise ValueError(f"its format is {found['format']}")
            self.rules = {name: ScoreRule(**rule) for name, rule in found["evaluators"].items()}
            self._cells = found["cells"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise StoreError(
                f"the scores in {self._path} can't be read: {error}",
                hint="remove the file and run the bench again: only scores are computed",
            ) from error

    def apply(self, cells: Iterable[Scored]) -> None:
        """Give each cell its scores."""
        for cell in cells:
            for name, entry in self._cells.get(cell.thread_id, {}).items():
                cell.scores[name] = entry["score"]
                if entry.get("reason"):
                    cell.reasons[name] = entry["reason"]

    def evaluate(
        self, cells: Sequence[Scored], evaluators: Sequence[Evaluator], *, again: bool = False
    ) -> list[tuple[Scored, str, Score]]:
        """Score cells and write the file; judges' scores that are recorded stay unless `again`.

        Returns the scores that are new or different.
        """
        news = []
        for evaluator in evaluators:
            self.rules[evaluator.name] = ScoreRule(evaluator.better, evaluator.tolerance)
            wanted = []
            for cell in cells:
                key = _key(evaluator, cell)
                before = self._cells.get(cell.thread_id, {}).get(evaluator.name, {})
                if again or key is None or before.get("of") != key or before["score"] is None:
                    wanted.append((cell, key))
            scores = _scores(evaluator, [cell for cell, _ in wanted])
            for (cell, key), score in zip(wanted, scores, strict=True):
                entry, known = _entry(score, key), self._cells.setdefault(cell.thread_id, {})
                if known.get(evaluator.name) != entry:
                    known[evaluator.name] = entry
                    news.append((cell, evaluator.name, score))
        self._write()
        return news

    def keep_only(self, names: Collection[str]) -> None:
        """Forget the scores of other evaluators, which the bench does not have any more."""
        self.rules = {name: rule for name, rule in self.rules.items() if name in names}
        for entries in self._cells.values():
            for name in entries.keys() - set(names):
                del entries[name]

    def _write(self) -> None:
        rules = {name: asdict(rule) for name, rule in self.rules.items()}
        content = {"format": FORMAT, "evaluators": rules, "cells": self._cells}
        with whole_file(self._path) as place:
            place.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _scores(evaluator: Evaluator, cells: Sequence[Scored]) -> list[Score]:
    if not evaluator.waits or len(cells) < 2:
        return [evaluator.score(cell) for cell in cells]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        # Each in a context of its own, which knows the caller's tape of language models.
        calls = [
            threads.submit(contextvars.copy_context().run, evaluator.score, each) for each in cells
        ]
        return [call.result() for call in calls]


def _entry(score: Score, key: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"score": score.value, "reason": score.reason, "of": key}
    if score.more:
        entry["more"] = json_safe(score.more)
    return entry


def _key(evaluator: Evaluator, cell: Any) -> str | None:
    """A hash of what a judge's score depends on; None for others, which are computed again."""
    if not evaluator.waits:
        return None
    try:
        own = getattr(evaluator.function, "identity", None)
        print_ = fingerprint(evaluator.function) if own is None else own
        content = encode([print_, cell.content])
    except Exception:
        return None
    return hashlib.sha256(content).hexdigest()[:16]


def metric_of(cell: Any, metric: str) -> float | None:
    """A cell's score of this name, or what is known of every cell."""
    scores: Mapping[str, float | None] = cell.scores
    if metric in scores:
        return scores[metric]
    if metric == INTERRUPTED:
        return float(cell.status == "interrupted")
    if metric not in MEASURED or cell.status == "cancelled":
        return None
    found = getattr(cell, metric)
    return None if found is None else float(found)
