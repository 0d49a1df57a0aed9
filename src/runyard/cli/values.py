"""Values on the command line: JSON if they parse as JSON, otherwise strings; and task names.

x=1  x=true  x=hello  x='{"a": 1}'          one value
x=1,2,hello  x='[1, 2]'  x=0..99  x=1..3,9  a list of values
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from runyard.errors import UsageError

_RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})")
_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_NUMBERS = re.compile(rf"{_NUMBER}\.\.{_NUMBER}")


def task_of(text: str) -> tuple[str, int]:
    """Read BATCH/NUMBER."""
    batch, _, number = text.rpartition("/")
    if not batch or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise UsageError(f"{text!r} is not a task", hint="write BATCH/NUMBER, such as walks/17")
    return batch, int(number)


def assignments(texts: Sequence[str], option: str) -> dict[str, str]:
    """`k=v` texts as a dict."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"{option} {text!r} is not NAME=VALUE", hint=f"write {option} x=1")
        if name in found:
            raise UsageError(f"{option} gives {name!r} twice", hint="remove one of them")
        found[name] = value
    return found


def value_of(text: str) -> Any:
    """One value; a range is refused, since it was meant as several."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        pieces = [piece.strip() for piece in text.split(",")]
    ranges = [piece for piece in pieces if _NUMBERS.fullmatch(piece)]
    if ranges and all(piece in ranges or re.fullmatch(_NUMBER, piece) for piece in pieces):
        raise UsageError(
            f"{text} is a range, not one value",
            hint=f"as text, write it in double quotes: '\"{text}\"'; to vary a parameter, use "
            "--grid of `runyard run`",
        )
    return text


def values_of(text: str) -> tuple[Any, ...] | range:
    """A list of values: a JSON list, a range `first..last`, or values with commas between them."""
    single = _RANGE.fullmatch(text.strip())
    if single:
        return _range(single)
    found = list(_split(text))
    if len(found) == 1 and isinstance(found[0], list):
        return tuple(found[0])
    return tuple(found)


def _split(text: str) -> Iterator[Any]:
    """Values between commas; a comma inside a JSON list, object or string is part of it."""
    if not text.strip():
        return
    at = 0
    while at <= len(text):
        structured = _structured(text, at)
        if structured is not None:
            value, at = structured
            yield value
            continue
        end = text.find(",", at)
        end = len(text) if end < 0 else end
        piece = text[at:end].strip()
        part = _RANGE.fullmatch(piece)
        if part:
            yield from _range(part)
        elif _NUMBERS.fullmatch(piece):
            raise UsageError(
                f"the range {piece} is not one of whole numbers",
                hint="list the values, or write text in double quotes, as JSON",
            )
        else:
            yield value_of(piece)
        at = end + 1


def _structured(text: str, at: int) -> tuple[Any, int] | None:
    """A JSON list, object or string that is a whole value, and where the next value starts."""
    start = at + len(text[at:]) - len(text[at:].lstrip())
    if text[start : start + 1] not in ("[", "{", '"'):
        return None
    try:
        value, end = _decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    rest = text[end:].lstrip()
    if rest and not rest.startswith(","):
        return None
    return value, len(text) - len(rest) + 1


def _range(match: re.Match[str]) -> range:
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise UsageError(f"the range {match[0]} is empty", hint="write first..last, such as 0..99")
    return range(first, last + 1)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)
