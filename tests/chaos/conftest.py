"""What the chaos tests measured, shown at the end of the session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Note = Callable[[str, object], None]
_notes = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Note:
    """Keep a figure for the end of the session."""
    lines = request.config.stash.setdefault(_notes, [])

    def note(what: str, value: object) -> None:
        lines.append(f"{request.node.name}: {what}: {value}")

    return note


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what was measured."""
    lines = config.stash.get(_notes, [])
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)
