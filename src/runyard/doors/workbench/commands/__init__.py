"""`runyard workbench …`: one file a command, loaded when it is called."""

from __future__ import annotations

import click

from runyard.cli.lazy import LazyGroup

SECTIONS = {
    "Run": {
        "init": ("init", "Write an example that runs."),
        "run": ("run", "Run the bench of a file, or continue it."),
    },
    "Look": {
        "show": ("show", "Show a cell: its nodes, its checkpoints and its state."),
        "compare": ("compare", "Compare variants, or two benches, on the same cases."),
        "fork": ("fork", "Run a cell again from one of its checkpoints."),
    },
}
"""The module of each command, and its line in the help."""


@click.group(cls=LazyGroup, sections=SECTIONS, package=__name__)
def workbench() -> None:
    """A test bench for LangGraph: variants of a graph on test cases, recorded and resumable.

    \b
      runyard workbench init
      runyard workbench run bench.toml
      runyard workbench show qa-1f2e3d4c/3
    """
