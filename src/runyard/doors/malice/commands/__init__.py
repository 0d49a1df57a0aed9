"""`runyard malice …`: one file a command, loaded when it is called."""

from __future__ import annotations

import click

from runyard.cli.lazy import LazyGroup

SECTIONS = {
    "Run": {
        "run": ("run", "Play many runs in parallel and summarise them."),
    },
    "Check": {
        "replay": ("replay", "Replay logged runs through these rules, event by event."),
        "calibrate": ("calibrate", "Compare simulated batches with a published one."),
    },
}
"""The module of each command, and its line in the help."""


@click.group(cls=LazyGroup, sections=SECTIONS, package=__name__)
def malice() -> None:
    """The malice experiment: seven users vote, and one wants to be promoted at any cost.

    \b
      runyard malice run --runs 30 --tickets 60 --seed 7
      runyard malice run --runs 200 --without civil --grid promote_at=4,6
    """
