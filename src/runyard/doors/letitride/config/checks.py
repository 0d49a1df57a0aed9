"""Reads a configuration from plain values, and refuses invalid ones.

Every error names the key's path, the value found there, and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

import msgspec

from runyard.doors.letitride.config import model
from runyard.doors.letitride.config.output import ConfigSection
from runyard.errors import UsageError

MOST_HANDS_LOGGED = 20_000_000
"""The most hands that a batch may record."""

_UNDEFINED = "it has no definition"
REFUSED: dict[tuple[str, Any], tuple[str, str]] = {
    ("paytables.main_game.type", "liberal"): (f"{_UNDEFINED}", "write the pays under custom"),
    ("paytables.main_game.type", "tight"): (f"{_UNDEFINED}", "write the pays under custom"),
    ("bonus_strategy.type", "session_conditional"): (_UNDEFINED, "use bankroll_conditional"),
    ("bonus_strategy.type", "combined"): (
        "it depends on decisions made after the bonus bet",
        "use static, bankroll_conditional or streak_based",
    ),
    ("bonus_strategy.type", "custom"): (
        "it would be run as Python",
        "use bankroll_conditional or streak_based, or pass a class from Python",
    ),
    ("bankroll.betting_system.type", "custom"): (
        "it would be run as Python",
        "use one of the named systems, or pass a class from Python",
    ),
    ("deck.shuffle_algorithm", "cryptographic"): (
        "a session could not be reproduced from its seed",
        "leave it at fisher_yates",
    ),
    ("bankroll.stop_conditions.stop_on_insufficient_funds", False): (
        "a bankroll is never negative",
        "leave it at true",
    ),
}
"""Values that other programs know and that are refused here, with the reason and an alternative."""

REFUSED_KEYS = {
    "paytables.bonus.progressive": (
        "sessions would share a jackpot and depend on each other",
        "leave it out",
    ),
    "bankroll.stop_conditions.max_duration_minutes": (
        "results would depend on the speed of the machine",
        "leave it out, or set it to null; max_hands limits the hands of a session",
    ),
}
"""Keys that accept only null."""


def read_config(data: Mapping[str, Any]) -> model.FullConfig:
    """Read a configuration from plain values."""
    from runyard.doors.letitride.config.consistency import check_rules

    if not isinstance(data, Mapping):
        raise UsageError(
            f"a configuration is a mapping of sections, not {type(data).__name__}",
            hint="`runyard letitride init` writes one to start from",
        )
    given = _without_empty(data)
    _refuse_broken_text(given)
    _refuse_known(given)
    _refuse_unknown(given, model.FullConfig, "")
    try:
        config = msgspec.convert(given, model.FullConfig)
    except msgspec.ValidationError as error:
        _explain(error, given)
    check_rules(config)
    return config


def refuse(path: str, value: Any, problem: str, allowed: str) -> NoReturn:
    """Raise an error with the path, the value, the problem and what is allowed."""
    raise UsageError(f"{path} is {_shown(value)}: {problem}", hint=allowed)


def value_at(data: Any, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            data = data[int(index)] if index else data[name]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _without_empty(data: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty sections, which a file has if everything below them is commented out."""
    found = {str(key): value for key, value in data.items() if value is not None}
    metadata = found.get("metadata")
    if isinstance(metadata, Mapping):  # YAML reads a date or a number where text is meant
        plain = (int, float)
        found["metadata"] = {
            k: str(v) if isinstance(v, plain) or hasattr(v, "isoformat") else v
            for k, v in metadata.items()
        }
    return found


def _refuse_broken_text(data: dict[str, Any]) -> None:
    """Refuse text with half of a surrogate pair, which can be neither recorded nor shown."""
    waiting: list[tuple[str, Any]] = [("", data)]
    seen: set[int] = set()  # YAML can repeat a part many times, or inside itself
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                refuse(path, value, "not valid Unicode", "write the character itself")
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                shown = {key: ascii(key)[1:-1] if isinstance(key, str) else key for key in value}
                places = [f"{path}.{shown[key]}" if path else f"{shown[key]}" for key in value]
                waiting += zip(places, value, strict=True)
                waiting += zip(places, value.values(), strict=True)
            else:
                waiting += [(f"{path}[{at}]", item) for at, item in enumerate(value)]


def _refuse_known(data: dict[str, Any]) -> None:
    for (path, value), (reason, instead) in REFUSED.items():
        found = value_at(data, path)
        if found == value and type(found) is type(value):
            refuse(path, value, f"refused, because {reason}", instead)
    for path, (reason, instead) in REFUSED_KEYS.items():
        found = value_at(data, path)
        if found is not None:
            refuse(path, found, f"refused, because {reason}", instead)


def _refuse_unknown(data: Any, kind: type[ConfigSection], path: str) -> None:
    """Refuse the first unknown key of a section or of the sections inside."""
    if not isinstance(data, Mapping):
        return
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in data.items():
        place = f"{path}.{key}" if path else str(key)
        if key not in known:
            where = f"in {path}" if path else "at the top"
            close = get_close_matches(str(key), known, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"unknown key {key!r} {where} (its value is {_shown(value)})",
                hint=f"{meant}known keys: {', '.join(known)}",
            )
        for inner, many in _parts(known[key]):
            if many and isinstance(value, list | tuple):
                for at, each in enumerate(value):
                    _refuse_unknown(each, inner, f"{place}[{at}]")
            elif not many:
                _refuse_unknown(value, inner, place)


def _parts(kind: Any) -> Iterator[tuple[type[ConfigSection], bool]]:
    """The section type in a field, if there is one, and whether the field is a list of them."""
    from typing import get_args, get_origin

    if isinstance(kind, type) and issubclass(kind, ConfigSection):
        yield kind, False
    many = get_origin(kind) is tuple
    for inner in get_args(kind):
        if isinstance(inner, type) and issubclass(inner, ConfigSection):
            yield inner, many


def _explain(error: msgspec.ValidationError, data: dict[str, Any]) -> NoReturn:
    """Turn msgspec's error into path, value and what is allowed."""
    message, _, place = str(error).partition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".") or "the configuration"
    value = value_at(data, path)
    allowed = message.replace("`", "").replace("Expected ", "expected ")
    if message.startswith("Invalid enum value"):
        refuse(path, value, "not a known value", f"one of: {_choices(path)}")
    missing = re.search(r"missing required field `(\w+)`", message)
    if missing:
        refuse(path, value, f"{missing[1]} is missing", "each rule has a condition and an action")
    names = {"null": "null", "str": "text", "int": "a whole number", "float": "a number",
             "bool": "true or false", "object": "keys with values", "array": "a list"}  # fmt: skip
    wanted = re.match(r"expected ([\w| ]+?)(?: ([<>]=? .*))?(?:, got \w+)?$", allowed)
    if wanted:
        kinds = " or ".join(names.get(word.strip(), word.strip()) for word in wanted[1].split("|"))
        limits = (place and _limits(path)) or (
            f" {wanted[2].removesuffix('.0')}" if wanted[2] else ""
        )
        allowed = f"{kinds}{limits}"
    refuse(path, value, "not allowed", f"allowed: {allowed}{_also(path)}")


def _also(path: str) -> str:
    return ' (or "auto")' if path == "simulation.workers" else ""


def _choices(path: str) -> str:
    """The words that a key accepts."""
    from typing import Literal, get_args, get_origin

    kind = _kind_at(path)
    found: list[str] = []
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            found += [str(word) for word in get_args(each)]
    return ", ".join(dict.fromkeys(found))


def _limits(path: str) -> str:
    """The range of a key's number, if it has both limits."""
    from typing import get_args

    kind = _kind_at(path)
    for each in (kind, *get_args(kind)):
        for meta in getattr(each, "__metadata__", ()):
            if meta.ge is not None and meta.le is not None:
                return f" from {meta.ge:,.10g} to {meta.le:,.10g}"
    return ""


def _kind_at(path: str) -> Any:
    """The type of a key's value."""
    kind: Any = model.FullConfig
    for name in re.findall(r"[^.\[\]\d][^.\[\]]*", path):
        part = next((p for p, _ in _parts(kind)), kind)
        kind = next(f.type for f in msgspec.structs.fields(part) if f.name == name)
    return kind


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
