"""`runyard letitride validate` and `init`."""

from __future__ import annotations

from pathlib import Path

import click

from runyard.cli.command import command, option
from runyard.cli.session import Session
from runyard.errors import UsageError


@command("runyard letitride validate game.yaml")
@click.argument("config", metavar="CONFIG")
def validate(session: Session, config: str) -> None:
    """Check a configuration: keys, types, ranges and contradictory settings."""
    from runyard.doors.letitride.config.file import read_file

    found = read_file(config)
    played, bankroll = found.simulation, found.bankroll
    session.answer(
        f"{config} is valid: {played.num_sessions:,} sessions of {played.hands_per_session:,} "
        f"hands, {found.strategy.type} strategy, {bankroll.betting_system.type} bets",
        {"valid": True, "path": config, "config": found.to_data()},
    )


@command(
    "runyard letitride init game.yaml",
    "runyard letitride init game.toml",
    "runyard letitride init -",
)
@click.argument("path", metavar="[PATH]", default="letitride.yaml")
@option("--force", is_flag=True, help="Overwrite an existing file.")
def init(session: Session, path: str, force: bool) -> None:
    """Write a configuration with every key, its default and a comment; `-` prints it.

    The suffix of PATH selects the format: .toml for TOML, .yaml or .yml for YAML.
    """
    from runyard.doors.letitride.config.file import starting_text
    from runyard.spaces import whole_file

    if path == "-":
        text = starting_text()
        session.say(text, newline=False)
        session.document({"path": None, "text": text})
        return
    place, text = Path(path), starting_text(path)
    if place.exists() and not force:
        raise UsageError(f"{path} already exists", hint="choose another name, or pass --force")
    with whole_file(place) as partial:
        partial.write_text(text, encoding="utf-8")
    following = session.command("letitride", "run", path)
    session.answer(f"wrote {path}\n  next: {following}", {"path": path})
