"""`runyard letitride validate` and `init`."""

from __future__ import annotations

from pathlib import Path

import click

from runyard.cli.session import Session, examples, shared
from runyard.errors import UsageError


@click.command(epilog=examples("runyard letitride validate game.yaml"))
@click.argument("config", metavar="CONFIG")
@shared
def validate(session: Session, config: str) -> int:
    """Check a configuration: keys, types, ranges and contradictory settings."""
    from runyard.doors.letitride.config.file import read_file

    found = read_file(config)
    played, bankroll = found.simulation, found.bankroll
    session.say(
        f"{config} is valid: {played.num_sessions:,} sessions of {played.hands_per_session:,} "
        f"hands, {found.strategy.type} strategy, {bankroll.betting_system.type} bets"
    )
    session.document({"valid": True, "path": config, "config": found.to_data()})
    return 0


@click.command(
    epilog=examples(
        "runyard letitride init game.yaml",
        "runyard letitride init game.toml",
        "runyard letitride init -",
    )
)
@click.argument("path", metavar="[PATH]", default="letitride.yaml")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@shared
def init(session: Session, path: str, force: bool) -> int:
    """Write a configuration with every key, its default and a comment; `-` prints it.

    The suffix of PATH selects the format: .toml for TOML, .yaml or .yml for YAML.
    """
    from runyard.doors.letitride.config.file import starting_text
    from runyard.spaces import whole_file

    if path == "-":
        text = starting_text()
        session.say(text, newline=False)
        session.document({"path": None, "text": text})
        return 0
    place, text = Path(path), starting_text(path)
    if place.exists() and not force:
        raise UsageError(f"{path} already exists", hint="choose another name, or pass --force")
    with whole_file(place) as partial:
        partial.write_text(text, encoding="utf-8")
    session.say(f"wrote {path}")
    session.say(f"  next: {session.command('letitride', 'run', path)}")
    session.document({"path": path})
    return 0
