"""Addresses of yards, made safe to show: without passwords.

    postgresql://user:password@host:port,host:port/database?key=value&sslpassword=…

All code that prints an address, or text that may contain one, uses this module. It also refuses
what can be neither an address nor the folder of a yard.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from pathlib import Path
from urllib.parse import unquote_plus

from runyard.errors import StoreError, UsageError

DEFAULT_YARD = ".runyard"
MASK = "***"
_SHORTEST = 3
"""Shorter passwords are not masked in other text, where everything would match."""

_IN_TEXT = re.compile(r"""://(?:(?!://)[^\s"'<>])+""")
_SECRET = re.compile(r"(?:ssl)?password|.*secret", re.IGNORECASE)
_PASSWORD_WORD = re.compile(
    r"\b((?:ssl)?password\s*=\s*)('(?:\\.|[^'\\])*'|[^\s&]+)", re.IGNORECASE
)
# Misspelt addresses, which would be taken for folders and shown with their passwords.
_MISSPELT = re.compile(
    r"\s*postgres(?:ql)?(?:\+\w+)?(?::|//)|(?://)?[^/:@\s]+:[^@]+@|.*\b(?:ssl)?password\s*=",
    re.IGNORECASE | re.DOTALL,
)
_OUT_OF_PLACE = re.compile(r"(?:password|secret)\s*=", re.IGNORECASE)
_FOLDER = "pass the folder of a yard"
_KINDS = ((stat.S_ISREG, "a file"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
_HOST = re.compile(r"(?:\[[^\]@]*\]|[^:@\[\]]*)(?::[0-9]*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


def shown(location: str | Path) -> str:
    """An address, or a path, without its passwords."""
    scheme, sign, rest = str(location).partition("://")
    if not sign:
        return _PASSWORD_WORD.sub(rf"\g<1>{MASK}", scheme)
    return scheme + sign + _without(rest, MASK)


def masked(text: str, mask: str = MASK) -> str:
    """A text without the passwords of addresses in it."""
    return _IN_TEXT.sub(lambda found: "://" + _without(found[0][3:], mask), text)


def command(*words: str, location: str | None) -> str:
    """A command line of Runyard for the yard at this location, as a person types it."""
    where = [] if location in (None, DEFAULT_YARD) else ["--yard", shown(str(location))]
    return shlex.join(["runyard", *words, *where])


def scrubbed(text: str, location: str | Path) -> str:
    """Text about this address without its passwords, in any form."""
    for secret in sorted(_secrets(str(location)), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return masked(text)


def check(location: str | Path) -> None:
    """Raise if an address can't be parsed, without showing it, or a path leads to no folder."""
    scheme, sign, rest = str(location).partition("://")
    before, _, query = rest.partition("?")
    authority, _, path = before.partition("/")
    user, _, hosts = authority.rpartition("@")
    pieces = query.split("&") if query else []
    open_parts = [user.partition(":")[0], hosts, path]
    open_parts += [
        value for key, _, value in (p.partition("=") for p in pieces) if not _is_secret(key)
    ]
    if (
        (not sign and _MISSPELT.match(scheme))
        or "@" in user + path + query
        or "?" in query
        or any(_OUT_OF_PLACE.search(unquote_plus(part)) for part in open_parts if sign)
        or _BAD_ESCAPE.search(rest)
        or not all(_HOST.fullmatch(host) for host in hosts.split(","))
        or not all("=" in piece for piece in pieces)
    ):
        raise UsageError(
            "the address of the yard can't be read",
            hint="write postgresql://user:password@host:port/database; "
            "in a password write @ as %40, : as %3A, / as %2F, ? as %3F and % as %25",
        )
    if not sign and str(location) != "memory:":
        _check_folder(Path(location))


def _check_folder(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number in (errno.ELOOP, errno.ENOTDIR):
            raise StoreError(
                f"{path} is not a folder: {os.strerror(number)}", hint=_FOLDER
            ) from None
        return  # it is missing, or can't be looked at, which opening it says
    if not stat.S_ISDIR(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "a device")
        raise StoreError(f"{path} is {kind}", hint=_FOLDER)


def _without(rest: str, mask: str) -> str:
    """What comes after `://`, with the mask in place of passwords."""
    at = _end_of_user(rest)
    user, colon, _ = rest[: max(at, 0)].partition(":")
    if colon:
        rest = f"{user}:{mask}{rest[at:]}"
    before, sign, query = rest.partition("?")
    found = before + sign + "&".join(_piece(piece, mask) for piece in query.split("&"))
    return _PASSWORD_WORD.sub(rf"\g<1>{mask}", found)  # out of place, where it is refused


def _end_of_user(rest: str) -> int:
    """The position of the `@` after user and password; -1 if there is none."""
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    at = authority.rfind("@")
    if at < 0 and not all(_HOST.fullmatch(host) for host in authority.split(",")):
        return rest.rfind("@")  # a password with a / or ? in it
    return at


def _piece(piece: str, mask: str) -> str:
    key, sign, _ = piece.partition("=")
    return f"{key}={mask}" if sign and _is_secret(key) else piece


def _is_secret(key: str) -> bool:
    return _SECRET.fullmatch(unquote_plus(key)) is not None


def _secrets(location: str) -> set[str]:
    """The passwords of an address, as written and decoded."""
    rest = location.partition("://")[2]
    found = {rest[: max(_end_of_user(rest), 0)].partition(":")[2]}
    for piece in rest.partition("?")[2].split("&"):
        key, _, value = piece.partition("=")
        if _is_secret(key):
            found.add(value)
    found |= {unquote_plus(each.replace("+", "%2B")) for each in found}
    return {each for each in found if len(each) >= _SHORTEST}
