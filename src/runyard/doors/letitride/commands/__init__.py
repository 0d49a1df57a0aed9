"""`runyard letitride …`: one file a command, loaded when it is called."""

from __future__ import annotations

import click

from runyard.cli.lazy import LazyGroup

SECTIONS = {
    "Play": {
        "run": ("run", "Play the sessions of a configuration."),
        "compare": ("run", "Compare configurations on the same cards."),
        "validate": ("check", "Check a configuration."),
        "init": ("check", "Write a configuration template."),
    },
    "Calculate": {
        "exact": (
            "exact",
            "Compute exact figures, the best play, and the cost of another.",
        ),
        "ruin": ("ruin", "Compute the risk of ruin by bankroll."),
    },
}
"""The module of each command, and its line in the help."""


@click.group(cls=LazyGroup, sections=SECTIONS, package=__name__)
def letitride() -> None:
    """Let It Ride: simulated sessions and exact answers.

    \b
      runyard letitride init game.yaml
      runyard letitride run game.yaml
      runyard letitride exact
      runyard letitride exact --strategy aggressive --paytable flush=6,straight=4
    """
