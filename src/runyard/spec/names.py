"""Names that are safe as a folder, a git branch and a command-line argument; suggestions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from runyard.errors import BadName

MAX_LENGTH = 100
"""The longest name, which leaves room for suffixes below a file system's limit of 255."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_RESERVED = re.compile(r"(?:\.git|con|prn|aux|nul|(?:com|lpt)[0-9])(?:\..*)?", re.IGNORECASE)
_ALLOWED = (
    f"use 1 to {MAX_LENGTH} letters (a-z, A-Z), digits, '.', '_' or '-', "
    "starting with a letter, a digit or '_'"
)


def safe_name(text: str, what: str = "name") -> str:
    """Return `text` if it is safe as a name, else raise BadName with the reason."""
    problem = _problem(text)
    if problem is None:
        return text
    shown = ascii(text if len(text) <= 60 else text[:57] + "...")
    raise BadName(f"{shown} can't be a {what}: {problem}", hint=_ALLOWED)


def slug(text: str) -> str:
    """Turn any text into a similar safe name; a safe name is returned unchanged."""
    if _problem(text) is None:
        return text
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9._]+", "-", ascii_text)
    name = re.sub(r"\.{2,}", ".", name).strip("-.")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"
    return name[:MAX_LENGTH].rstrip("-.") or "unnamed"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name; empty where no known name is close."""
    close = closest(name, known)
    return "" if close is None else f"; did you mean {close!r}?"


def _problem(text: str) -> str | None:
    if not text:
        return "it is empty"
    if len(text) > MAX_LENGTH:
        return f"it has {len(text)} characters"
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        return f"it contains {forbidden.group()!a}"
    if _RESERVED.fullmatch(text):
        return "it is reserved"
    if text[0] in "-.":
        return f"it starts with {text[0]!r}"
    if ".." in text:
        return "it contains '..'"
    if text.endswith("."):
        return "it ends with '.'"
    return None
