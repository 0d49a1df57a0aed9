"""`runyard worker`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.running import WHY, place_options, show_notices
from runyard.cli.session import Session, examples, shared
from runyard.format import count

if TYPE_CHECKING:
    from runyard.worker import Turn


@click.command(
    epilog=examples(
        "runyard worker",
        "runyard worker --yard postgresql://lab@db.example.org/lab --workers 8",
        "runyard worker --forever --yard postgresql://lab@db.example.org/lab",
    )
)
@click.option("--forever", is_flag=True, help="Wait for more work instead of ending.")
@place_options
@shared
def worker(session: Session, *, forever: bool, progress: bool, **place: Any) -> int:
    """Run tasks from a shared yard.

    Workers on any number of machines can share one yard in PostgreSQL; the most urgent batch runs
    first. Tasks are imported by name, so start the worker in a folder with the project's code.
    """
    from runyard.execution import RunSettings
    from runyard.worker import YardWorker

    ended: list[Turn] = []
    code = 0
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=progress)

        def tell(turn: Turn) -> None:
            ended.append(turn)
            why = f"; {WHY[turn.end]}" if turn.end in WHY else ""
            session.say(f"{turn.batch}: {count(turn.tasks, 'task')}{why}")

        given = {name: value for name, value in place.items() if value is not None}
        settings = RunSettings(**given, progress=progress)
        try:
            YardWorker(yard, settings, forever=forever, on_turn=tell, say=session.note).run()
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except SystemExit as error:
            code = int(error.code or 0)
    session.document({"batches": [turn._asdict() for turn in ended]})
    if not ended and not code:
        session.say("nothing to do")
    return code
