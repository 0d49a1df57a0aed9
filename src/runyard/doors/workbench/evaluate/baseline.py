"""A baseline file: how a bench scored, to be committed; and what got worse since.

{"format": 1, "batch": …, "scores": {name: {"better": …, "tolerance": …}},
 "cells": {variant: {case: {"completed": 2, "of": 2, "scores": {name: 1.0}}}}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runyard.doors.workbench.evaluate.scores import ScoreRule
from runyard.doors.workbench.evaluate.table import CellTable
from runyard.errors import UsageError
from runyard.format import count, listed, show
from runyard.spaces import read_text, whole_file
from runyard.spec.status import COMPLETED
from runyard.stats.compare import compare
from runyard.stats.compare_result import About, Comparison

FORMAT = 1
SHOWN_IN_REPORT = "baseline.json"
"""The file of a batch with the differences from its baseline, for reports."""

_SHOWN = 20
_NOISE = 1e-9


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case of a variant that scores otherwise than in the baseline."""

    variant: str
    case: str
    metric: str  # a score's name, or `completed`: the share of its cells that did
    before: float | None
    after: float | None
    tolerance: float = 0.0

    @property
    def words(self) -> str:
        """It in a line."""
        before, after = ("none" if v is None else show(v) for v in (self.before, self.after))
        return f"{self.variant} on {self.case}: {self.metric} {before} → {after}"


@dataclass(frozen=True)
class Changes:
    """What is different from the baseline."""

    worse: list[CaseChange]
    improved: list[CaseChange]
    added: list[str]  # `variant on case` that the baseline does not have
    removed: list[str]  # that it has, and this bench has not
    comparisons: list[Comparison]  # of each variant and score with its baseline

    @property
    def holds(self) -> bool:
        """Whether nothing got worse."""
        return not self.worse

    @property
    def lines(self) -> list[str]:
        """What got worse, then the rest, for people."""
        found = [f"worse: {change.words}" for change in self.worse[:_SHOWN]]
        if len(self.worse) > _SHOWN:
            found.append(f"worse: and {len(self.worse) - _SHOWN:,} more")
        if self.improved:
            found.append(f"better: {listed([each.words for each in self.improved], 5)}")
        if self.added:
            found.append(f"not in the baseline: {listed(self.added, 5)}")
        if self.removed:
            found.append(f"only in the baseline: {listed(self.removed, 5)}")
        found += [each.words() for each in self.comparisons if each.effect]
        head = (
            f"{count(len(self.worse), 'figure')} got worse" if self.worse else "nothing got worse"
        )
        return [f"baseline: {head}", *(f"  {line}" for line in found)]

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "holds": self.holds,
            "worse": [asdict(each) for each in self.worse],
            "improved": [asdict(each) for each in self.improved],
            "added": self.added,
            "removed": self.removed,
            "comparisons": [each.to_data() for each in self.comparisons],
        }


def baseline_of(table: CellTable, rules: Mapping[str, ScoreRule], batch: str) -> dict[str, Any]:
    """The content of a baseline file."""
    return {
        "format": FORMAT,
        "batch": batch,
        "scores": {name: asdict(rules.get(name, ScoreRule())) for name in table.scores},
        "cells": {
            variant: {case: _entry(table, v, c) for c, case in enumerate(table.cases)}
            for v, variant in enumerate(table.variants)
        },
    }


def write_baseline(path: Path, content: Mapping[str, Any]) -> None:
    """Write a baseline file, with a line for each figure, so that versions can be compared."""
    with whole_file(path) as place:
        text = json.dumps(content, indent=1, ensure_ascii=False)
        place.write_text(text + "\n", encoding="utf-8")


def read_baseline(path: Path) -> dict[str, Any] | None:
    """The content of a baseline file; None if there is none."""
    try:
        found = json.loads(read_text(path))
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r}")
        for cases in found["cells"].values():
            for entry in cases.values():
                entry["completed"] / entry["of"]
                entry["scores"].items()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise UsageError(
            f"{path} is not a baseline: {error or type(error).__name__}",
            hint="name another file, or remove it and run again to write a new one",
        ) from error
    return dict(found)


def keep_for_report(folder: Path, path: Path, changes: Changes | None) -> None:
    """Leave the differences with a batch; without any, forget those of an earlier run."""
    place = folder / SHOWN_IN_REPORT
    if changes is None:
        place.unlink(missing_ok=True)
        return
    content = {"path": path.name, "worse": len(changes.worse), "lines": changes.lines}
    with whole_file(place) as file:
        file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def changes_since(before: Mapping[str, Any], now: Mapping[str, Any]) -> Changes:
    """What is different in `now` from a baseline."""
    rules = {name: ScoreRule(**rule) for name, rule in (before["scores"] | now["scores"]).items()}
    worse, improved = [], []
    for variant, case, old, new in _both(before["cells"], now["cells"]):
        for change, rule in _changes(variant, case, old, new, rules):
            direction = _direction(change, rule)
            if direction < 0:
                worse.append(change)
            elif direction > 0:
                improved.append(change)
    old_keys, new_keys = (_keys(each["cells"]) for each in (before, now))
    return Changes(
        worse,
        improved,
        added=[key for key in new_keys if key not in old_keys],
        removed=[key for key in old_keys if key not in new_keys],
        comparisons=list(_comparisons(before, now, rules)),
    )


def _entry(table: CellTable, variant: int, case: int) -> dict[str, Any]:
    status = table.status[variant, case]
    scores = {}
    for name in table.scores:
        values = table.values(name)[variant, case]
        values = values[~np.isnan(values)]
        scores[name] = float(values.mean()) if len(values) else None
    return {"completed": int((status == COMPLETED).sum()), "of": len(status), "scores": scores}


def _changes(
    variant: str,
    case: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    rules: Mapping[str, ScoreRule],
) -> Iterator[tuple[CaseChange, ScoreRule]]:
    shares = [entry["completed"] / entry["of"] for entry in (old, new)]
    yield CaseChange(variant, case, "completed", *shares), ScoreRule()
    for name, rule in rules.items():
        if rule.tolerance is not None and name in old["scores"]:
            values = old["scores"][name], new["scores"].get(name)
            yield CaseChange(variant, case, name, *values, tolerance=rule.tolerance), rule


def _direction(change: CaseChange, rule: ScoreRule) -> int:
    """-1 if it got worse. A score that is missing now can't be told from a worse one."""
    if change.before is None or change.after is None:
        return (change.after is not None) - (change.before is not None)
    gain = change.after - change.before
    gain = -gain if rule.better == "lower" else gain
    if abs(gain) <= change.tolerance + _NOISE:
        return 0
    return 1 if gain > 0 else -1


def _comparisons(
    before: Mapping[str, Any], now: Mapping[str, Any], rules: Mapping[str, ScoreRule]
) -> Iterator[Comparison]:
    """Each variant with its baseline, on the cases that both have."""
    for variant in now["cells"]:
        for name, rule in rules.items():
            pairs = [
                (new["scores"].get(name), old["scores"].get(name))
                for of, _, old, new in _both(before["cells"], now["cells"])
                if of == variant
            ]
            pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
            if len(pairs) < 2:
                continue
            first, second = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
            about = About(variant, f"{variant} in the baseline", name, rule.better)
            yield compare(first, second, paired=True, about=about)


def _both(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    for variant, cases in now.items():
        for case, new in cases.items():
            old = before.get(variant, {}).get(case)
            if old is not None:
                yield variant, case, old, new


def _keys(cells: Mapping[str, Any]) -> list[str]:
    return [f"{variant} on {case}" for variant, cases in cells.items() for case in cases]
