"""How a request differs from the recorded one that is most like it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

MOST_LINES = 24
"""Lines of a difference that are shown."""

AROUND = 60
"""Characters shown before the place where two long lines differ, and twice as many after it."""


def difference(sent: dict[str, Any], recorded: Iterable[dict[str, Any]]) -> str:
    """A short diff from the nearest recorded request to the one that was sent."""
    new = _lines(sent)
    candidates = [_lines(each) for each in recorded]
    if not candidates:
        return ""
    old = max(candidates, key=lambda each: _similarity(each, new))
    shown = list(_diff(old, new))
    rest = len(shown) - MOST_LINES
    more = [f"… and {rest} more lines"] if rest > 0 else []
    return "\n".join(["--- recorded", "+++ sent", *shown[:MOST_LINES], *more])


def _lines(request: dict[str, Any]) -> list[str]:
    """The request as indented JSON, with line breaks in texts as line breaks."""
    text = json.dumps(request, indent=2, sort_keys=True, ensure_ascii=False)
    return text.replace("\\n", "\\n\n").split("\n")


def _similarity(old: Sequence[str], new: Sequence[str]) -> tuple[float, int]:
    same_lines = SequenceMatcher(None, old, new, autojunk=False).ratio()
    return same_lines, _same("".join(old), "".join(new))


def _diff(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Changed lines, each run of them below the line that comes before it."""
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, low, high, start, end in opcodes:
        if kind == "equal":
            if high < len(old) or end < len(new):
                yield f"  {_window(old[high - 1], 0)}"
            continue
        removed, added = old[low:high], new[start:end]
        differ = [_same(*pair) for pair in zip_longest(removed, added, fillvalue="")]
        yield from (f"- {_window(line, at)}" for line, at in zip(removed, differ, strict=False))
        yield from (f"+ {_window(line, at)}" for line, at in zip(added, differ, strict=False))


def _same(left: str, right: str) -> int:
    """How many characters at the start of two texts are the same."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _window(line: str, place: int) -> str:
    """The part of a long line around a place."""
    if len(line) <= 3 * AROUND:
        return line
    start = max(0, place - AROUND)
    end = start + 3 * AROUND
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
