"""`runyard worker`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.running import WHY, place_options, show_notices
from runyard.cli.session import Session, examples, shared

if TYPE_CHECKING:
    from runyard.worker import Turn


@click.command(
    epilog=examples(
        "runyard worker",
        "runyard worker --yard postgresql://lab@db.example.org/lab --workers 8",
        "runyard worker --forever --yard postgresql://lab@db.example.org/lab",
    )
)
@click.option("--forever", is_flag=True, help="Wait for more when there is nothing to do.")
@place_options
@shared
def worker(session: Session, *, forever: bool, progress: bool, **place: Any) -> int:
    """Take work from a yard that others fill.

    Any number of workers on any number of machines may share one yard in PostgreSQL. The most
    urgent batch comes first. Tasks are found by name, so the project's code must be here too;
    start the worker in the project's folder.
    """
    from runyard.execution import RunSettings
    from runyard.worker import Worker

    ended: list[Turn] = []
    code = 0
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=progress)

        def tell(turn: Turn) -> None:
            ended.append(turn)
            why = f"; {WHY[turn.end]}" if turn.end in WHY else ""
            session.say(f"{turn.batch}: {turn.tasks:,} tasks{why}")

        given = {name: value for name, value in place.items() if value is not None}
        settings = RunSettings(**given, progress=progress)
        try:
            Worker(yard, settings, forever=forever, on_turn=tell, say=session.note).run()
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except SystemExit as error:
            code = int(error.code or 0)
    session.document({"batches": [turn._asdict() for turn in ended]})
    if not ended and not code:
        session.say("there is nothing to do")
    return code
