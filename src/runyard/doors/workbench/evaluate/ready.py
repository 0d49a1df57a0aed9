"""Ready evaluators. Each is data, so that a bench file can name it and its options.

{"answer": ExactMatch("answer"), "fast": Latency(at_most=2.0)}
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.doors.workbench.evaluate.evaluators import Better
from runyard.doors.workbench.evaluate.trajectories import Mode, check_mode, mismatch
from runyard.errors import BadSpec

_NOTHING = object()


@dataclass(frozen=True)
class ExactMatch:
    """Whether the output equals what the case expects, or one field of the output does."""

    field: str | None = None  # a path such as `answer` or `docs.0`
    ignore_case: bool = False

    def __call__(self, outputs: Any, reference: Any) -> dict[str, Any]:
        """1 if they are equal."""
        got, want = chosen(outputs, reference, self.field)
        if self.ignore_case:
            got, want = _folded(got), _folded(want)
        return _verdict(_same(got, want), got, want)


@dataclass(frozen=True)
class JsonMatch:
    """Whether two values are the same JSON; texts are parsed first.

    Numbers are equal by value. With `subset`, the output may have further keys.
    """

    field: str | None = None
    subset: bool = False
    ignore: Sequence[str] = ()  # keys that don't matter

    def __call__(self, outputs: Any, reference: Any) -> dict[str, Any]:
        """1 if they are the same."""
        got, want = (_parsed(each) for each in chosen(outputs, reference, self.field))
        problem = next(self._differences(got, want, "$"), None)
        return {"score": problem is None, "reason": problem or ""}

    def _differences(self, got: Any, want: Any, path: str) -> Iterator[str]:
        if isinstance(want, Mapping) and isinstance(got, Mapping):
            for key in dict.fromkeys((*want, *got)):
                if key not in self.ignore:
                    yield from self._in_key(got, want, key, f"{path}.{key}")
        elif _is_list(want) and _is_list(got):
            if len(got) != len(want):
                yield f"{path} has {len(got)} items instead of {len(want)}"
                return
            for at, pair in enumerate(zip(got, want, strict=True)):
                yield from self._differences(*pair, f"{path}[{at}]")
        elif not _same(got, want):
            yield f"{path} is {got!r:.80} instead of {want!r:.80}"

    def _in_key(
        self, got: Mapping[Any, Any], want: Mapping[Any, Any], key: Any, path: str
    ) -> Iterator[str]:
        if key not in got:
            yield f"{path} is missing"
        elif key in want:
            yield from self._differences(got[key], want[key], path)
        elif not self.subset:
            yield f"{path} is not expected"


@dataclass(frozen=True)
class RegexMatch:
    """Whether a regular expression is found in the output's text: `pattern`, or the expected one.

    With `whole`, all of the text has to match.
    """

    pattern: str | None = None
    field: str | None = None
    whole: bool = False
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if self.pattern is not None:
            _compiled(self.pattern, ignore_case=self.ignore_case)

    def __call__(self, outputs: Any, reference: Any) -> dict[str, Any]:
        """1 if it is found."""
        got, want = chosen(outputs, reference, self.field)
        pattern = self.pattern if self.pattern is not None else str(want)
        rule = _compiled(pattern, ignore_case=self.ignore_case)
        text = got if isinstance(got, str) else json.dumps(got, default=str, ensure_ascii=False)
        found = rule.fullmatch(text) if self.whole else rule.search(text)
        reason = "" if found else f"no {pattern!r} in {text!r:.200}"
        return {"score": found is not None, "reason": reason}


@dataclass(frozen=True)
class NumericMatch:
    """Whether a number is within a tolerance of the expected one: the larger of the two counts."""

    field: str | None = None
    absolute: float = 0.0
    relative: float = 1e-9

    def __post_init__(self) -> None:
        if self.absolute < 0 or self.relative < 0:
            raise BadSpec("a tolerance below 0", hint="use 0 or more")

    def __call__(self, outputs: Any, reference: Any) -> dict[str, Any]:
        """1 if it is close."""
        got, want = (_number(each) for each in chosen(outputs, reference, self.field))
        allowed = max(self.absolute, self.relative * abs(want))
        is_close = got == want or abs(got - want) <= allowed
        return {"score": is_close, "reason": "" if is_close else f"{got:g} instead of {want:g}"}


@dataclass(frozen=True)
class _Limited:
    """A figure that is the score, or a limit that it has to keep."""

    at_most: float | None = None

    @property
    def better(self) -> Better:
        """Less is better; little enough is."""
        return "lower" if self.at_most is None else "higher"

    @property
    def tolerance(self) -> float | None:
        """The figure itself is never the same twice."""
        return None if self.at_most is None else 0.0

    def _score(self, value: float, what: str) -> dict[str, Any]:
        if self.at_most is None:
            return {"score": value}
        told = what.format(value)
        if value > self.at_most:
            return {"score": False, "reason": f"{told}, more than {what.format(self.at_most)}"}
        return {"score": True, "reason": told}


@dataclass(frozen=True)
class Latency(_Limited):
    """The seconds that the graph ran, or whether they are within a limit."""

    def __call__(self, latency: float) -> dict[str, Any]:
        """The seconds, or 1 if they are within the limit."""
        return self._score(latency, "{:.3g} s")


@dataclass(frozen=True)
class Cost(_Limited):
    """What the models' answers cost in dollars, or whether that is within a limit."""

    def __call__(self, cost: float | None) -> dict[str, Any]:
        """The dollars, or 1 if they are within the limit; no score if the cost is unknown."""
        if cost is None:
            why = "the cost is unknown: no model was called, or one without a price"
            return {"score": None, "reason": why}
        return self._score(cost, "${:.4g}")


@dataclass(frozen=True)
class ToolCallMatch:
    """Whether the messages of the output call the expected tools; with `at_most`, not too often.

    Expected are names, or dicts with `name` and `args`: `calls`, or what the case expects.
    """

    mode: Mode = "strict"
    calls: Sequence[Any] | None = None
    at_most: int | None = None
    messages: str = field(default="messages")  # the field of the output that has them

    def __post_init__(self) -> None:
        check_mode(self.mode)

    def __call__(self, outputs: Any, reference: Any) -> dict[str, Any]:
        """1 if it does."""
        made = list(calls_of(at_path(outputs, self.messages)))
        if self.at_most is not None and len(made) > self.at_most:
            return {"score": False, "reason": f"{len(made)} tool calls, more than {self.at_most}"}
        if self.at_most is not None and self.calls is None:
            return {"score": True, "reason": "", "calls": len(made)}
        expected = self.calls
        if expected is None:
            expected = reference.get("tool_calls") if isinstance(reference, Mapping) else reference
        if isinstance(expected, str) or not isinstance(expected, Sequence):
            raise BadSpec(f"the case expects {reference!r:.80}, which is not a list of tool calls")
        problem = _call_difference(made, [_call(each) for each in expected], self.mode)
        return {"score": problem is None, "reason": problem or ""}


def chosen(outputs: Any, reference: Any, path: str | None) -> tuple[Any, Any]:
    """What is compared: the whole output, or a field of it.

    A field is compared with the same one of the reference, if the reference has it.
    """
    if path is None:
        return outputs, reference
    inside = _at(reference, path) if isinstance(reference, Mapping) else _NOTHING
    return at_path(outputs, path), reference if inside is _NOTHING else inside


def at_path(value: Any, path: str) -> Any:
    """The field of a value; KeyError if there is none."""
    found = _at(value, path)
    if found is _NOTHING:
        raise KeyError(f"the output has no {path!r}")
    return found


def calls_of(messages: Any) -> Iterator[tuple[str, Any]]:
    """The names and arguments of the tool calls in messages, in order."""
    for message in messages:
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        for call in calls or getattr(message, "tool_calls", None) or ():
            inner = call.get("function", call)
            yield inner["name"], _parsed(inner.get("args", inner.get("arguments", {})))


def _call_difference(
    made: Sequence[tuple[str, Any]], wanted: Sequence[tuple[str, Any]], mode: Mode
) -> str | None:
    if mode == "strict":
        same = len(made) == len(wanted) and all(map(_fits, made, wanted))
        return None if same else f"called {_names(made) or 'nothing'} instead of {_names(wanted)}"
    left = list(made)
    lacking = []
    # Those that name arguments choose first, so that none takes the only call that fits another.
    for each in sorted(wanted, key=lambda call: call[1] is None):
        at = next((n for n, call in enumerate(left) if _fits(call, each)), None)
        if at is None:
            lacking.append(each)
        else:
            del left[at]
    return mismatch(_names(lacking), _names(left), mode)


def _fits(made: tuple[str, Any], wanted: tuple[str, Any]) -> bool:
    return made[0] == wanted[0] and (wanted[1] is None or _same(made[1], wanted[1]))


def _call(given: Any) -> tuple[str, Any]:
    return (given, None) if isinstance(given, str) else (given["name"], given.get("args"))


def _names(calls: Sequence[tuple[str, Any]]) -> str:
    counted = Counter(name for name, _ in calls)
    return ", ".join(n if k == 1 else f"{n} × {k}" for n, k in counted.items())


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif _is_list(value) and key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
            value = value[int(key)]
        elif not isinstance(value, Mapping) and hasattr(value, key) and not key.startswith("_"):
            value = getattr(value, key)
        else:
            return _NOTHING
    return value


def _verdict(same: bool, got: Any, want: Any) -> dict[str, Any]:
    return {"score": same, "reason": "" if same else f"{got!r:.200} instead of {want!r:.200}"}


def _same(a: Any, b: Any) -> bool:
    """Equal, but True is not 1, and tuples are lists as in any recorded value."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if _is_list(a) and _is_list(b):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    found = float(value)
    if math.isnan(found):
        raise ValueError("NaN is not close to anything")
    return found


def _compiled(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise BadSpec(f"{pattern!r} is not a regular expression: {error}") from None
