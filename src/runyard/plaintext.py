"""Untrusted text made safe to show: nothing in it acts on the terminal or the page.

What a task prints, raises, returns or is given may hold escape sequences that set a terminal's
title, write to its clipboard or clear the screen. All text that is shown to people passes through
here.
"""

from __future__ import annotations

import json
import re
from typing import Any

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, lone surrogates, and changes of text direction."""


def plain(text: str) -> str:
    """The text with control characters escaped; lines and tabs are kept."""
    return UNSEEN.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line, with single spaces."""
    return plain(" ".join(text.split()))


def ascii_json(data: Any) -> str:
    """JSON in printable ASCII."""
    return json.dumps(data).replace("\x7f", "\\u007f")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
