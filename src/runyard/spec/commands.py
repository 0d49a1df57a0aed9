"""Where a shell command can have parameters.

Each is inserted as a quoted word, which the shell only reads as a word outside other quotes.
"""

from __future__ import annotations

import re
import string

_PIECE = re.compile(
    r"""(?P<joint>[\\$])?(?P<field>\{[^}]*\})
      | \\. | \$\(\( | \$\( | <<< | (?P<document><<-?[ \t]*(?=[\w'"\\]))
      | (?P<comment>(?<![^\s;&|()])\#) | .""",
    re.VERBOSE | re.DOTALL,
)
_PLACES = {
    "'": "inside quotes", '"': "inside quotes", "`": "inside backquotes", "#": "in a comment",
    "((": "in arithmetic", "<<": "in a here-document",
    "\\": "after a backslash", "$": "after a $",
}  # fmt: skip


def misplaced(command: str) -> str | None:
    """The first `{x}` that the shell would not read as a word, and where it is."""
    inside: list[str] = []
    document = False
    for piece in _PIECE.finditer(_without_braces(command)):
        if not piece["field"]:
            document |= bool(piece["document"]) and not _quoting(inside)
            _follow(inside, piece)
            if document and piece[0].endswith("\n") and not _quoting(inside):
                inside.append("<<")  # its end is not detected
            continue
        where = _quoting(inside) or piece["joint"]
        if where:
            return f"{piece['field']} is {_PLACES[where]}"
    return None


def _follow(inside: list[str], piece: re.Match[str]) -> None:
    """Enter or leave what a piece begins or ends."""
    text, place = piece[0], inside[-1] if inside else ""
    if place in ("'", "#", "`", "<<"):
        is_end = text == "`" if place == "`" else text.endswith("\n" if place == "#" else place)
        if is_end and place != "<<":
            inside.pop()
    elif text == "$((":
        inside += ["((", "(("]
    elif text == "$(" or (text == "(" and place != '"'):
        inside.append("((" if place == "((" else "(")
    elif (text == ")" and place in ("(", "((")) or text == '"' == place:
        inside.pop()
    elif text in ('"', "`") or (text == "'" and place != '"'):
        inside.append(text)
    elif piece["comment"] and place in ("", "("):
        inside.append("#")


def _quoting(inside: list[str]) -> str | None:
    """What surrounds a place, other than parentheses."""
    return next((each for each in inside if each != "("), None)


def _without_braces(command: str) -> str:
    """The command without braces other than those of its parameters."""
    return "".join(
        text.translate({ord(brace): " " for brace in "{}"})
        + ("" if name is None else f"{{{name}}}")
        for text, name, _, _ in string.Formatter().parse(command)
    )
