"""The command line called in the test's own process: quicker than a process a command."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from runyard.cli.main import main


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Every JSON line; strict JSON, without NaN and Infinity."""
        return [json.loads(line, parse_constant=pytest.fail) for line in self.out.splitlines()]

    @property
    def last(self) -> dict[str, Any]:
        """The last JSON line."""
        return self.documents[-1]


Call = Callable[..., Said]


def call(capfd: pytest.CaptureFixture[str], *words: str) -> Said:
    """Run a command; stdout and the handler of SIGTERM are afterwards what they were."""
    capfd.readouterr()
    stdout, term = os.dup(1), signal.getsignal(signal.SIGTERM)
    try:
        code = main(list(words))
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        signal.signal(signal.SIGTERM, term)
    return Said(code, *capfd.readouterr())
