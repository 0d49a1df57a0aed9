"""`runyard workbench init`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from runyard.cli.command import command, option
from runyard.cli.session import Session
from runyard.errors import UsageError

EXAMPLE = ("bench.toml", "bench_graph.py")


@command("runyard workbench init", "runyard workbench init --folder benches/qa")
@option("--folder", type=click.Path(path_type=Path), default=Path(), help="Write into this folder.")
def init(session: Session, folder: Path) -> None:
    """Write an example that runs: a bench file and its graph, both commented."""
    there = [name for name in EXAMPLE if (folder / name).exists()]
    if there:
        raise UsageError(
            f"{folder / there[0]} exists already", hint="choose another folder with --folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in EXAMPLE:
        text = (files("runyard.doors.workbench.commands") / "example" / f"{name}.txt").read_text()
        (folder / name).write_text(text, encoding="utf-8")
    written = [str(folder / name) for name in EXAMPLE]
    next_ = session.command("workbench", "run", written[0])
    session.answer(f"wrote {' and '.join(written)}\n  next: {next_}", {"files": written})
