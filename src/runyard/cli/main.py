"""The program: finds the command, calls it, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

import click

from runyard import __version__, interrupts
from runyard.addresses import masked, scrubbed
from runyard.cli.applications import APPLICATIONS
from runyard.cli.exit_codes import EXIT_CODES, EXIT_ENGINE, EXIT_SIGNAL, EXIT_USAGE, code_of
from runyard.cli.lazy import LazyGroup
from runyard.cli.session import Session, style
from runyard.errors import CodeChangedWarning, RunyardError

SECTIONS = {
    "Run": {
        "run": ("cli.run", "Run a batch, or continue it."),
        "resume": ("cli.resume", "Continue a batch, or all unfinished ones."),
        "retry": ("cli.resume", "Rerun the failed tasks of a batch."),
        "worker": ("cli.resume", "Run tasks from a shared yard."),
        "stop": ("cli.control", "Stop engines once their running tasks end."),
        "cancel": ("cli.control", "Cancel a batch or a task, even while it runs."),
    },
    "Inspect": {
        "status": ("cli.status", "Show counts, progress, rate, time left and workers."),
        "results": ("cli.results", "Show outcomes, failures or summaries."),
        "compare": ("cli.compare", "Compare variants: effect, interval, significance."),
        "logs": ("cli.logs", "Show what a task printed and its events."),
        "export": ("cli.export", "Write outcomes to a file."),
        "report": ("cli.export", "Write a self-contained HTML report."),
    },
    "Check": {
        "repro": ("cli.check", "Rerun one task in this process and compare."),
        "verify": ("cli.check", "Rerun a sample on another backend and compare."),
        "doctor": ("cli.upkeep", "Check the store and the logs; repair truncated logs."),
    },
    "Clean up": {
        "clear": ("cli.control", "Delete a batch: its record and its files."),
        "gc": ("cli.upkeep", "Remove old workspaces and leftovers; compact the store."),
    },
    "Applications": APPLICATIONS,
}
"""The module of each command, and its line in the help, which loads none of them."""


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    package="runyard",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="runyard", message="%(prog)s %(version)s")
def cli() -> None:
    """Run thousands of isolated, reproducible tasks in parallel without losing any.

    \b
      runyard run walks.py:walk --grid dimension=1,2,3 --replicates 1000
      runyard results walk-1f2e3d4c
    """


def main(args: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if args is None else args
    is_program = args is None
    session = Session(is_program=is_program)
    if "--json" in words:
        session.use_json()
    interrupts.forget_end()
    heard = [n for n in interrupts.SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
    before = interrupts.handle(interrupts.raise_once, heard)
    try:
        with interrupts.not_lost():
            return _call(session, words)
    except BrokenPipeError:
        return _broken_pipe(session)
    finally:
        interrupts.note_end()
        session.close()
        # Python is still shutting down, which a signal could only disturb.
        interrupts.restore(dict.fromkeys(before, signal.SIG_IGN) if is_program else before)


def _call(session: Session, words: list[str]) -> int:
    # Not click's own `main`, which exits by itself for some errors.
    try:
        session.hear_signals()
        with (
            warnings.catch_warnings(action="ignore", category=CodeChangedWarning),
            cli.make_context("runyard", list(words), obj=session) as context,
        ):  # the command line shows a notice instead
            code = cli.invoke(context)
        session.flush()
        interrupts.note_end()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, click.Abort):
        session.note("\ninterrupted")
        return EXIT_SIGNAL + signal.SIGINT
    except SystemExit as end:
        return code_of(end)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _explain(session, error)


def _explain(session: Session, error: Exception) -> int:
    """Show an error and return its exit code."""
    if os.environ.get("RUNYARD_DEBUG"):
        import traceback

        trace = "".join(traceback.format_exception(error)).rstrip()
        session.note(scrubbed(trace, session.location))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        session.note(error.format_message())
        return error.exit_code
    told: dict[str, Any] = {"class": type(error).__name__}
    if isinstance(error, RunyardError):
        told |= {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    elif isinstance(error, click.ClickException):
        told |= {"message": error.format_message(), "hint": _usage(error), "exit_code": EXIT_USAGE}
    else:
        message = f"unexpected {type(error).__name__}: {error}"
        hint = "this is a bug in Runyard; set RUNYARD_DEBUG=1 to see the traceback"
        told |= {"message": message, "hint": hint, "exit_code": EXIT_ENGINE}
    told |= {key: masked(told[key]) for key in ("message", "hint") if told[key]}
    session.note(f"{style('error:', fg='red', bold=True)} {told['message']}")
    if told["hint"]:
        session.note("\n".join(f"  {line}" for line in told["hint"].splitlines()))
    session.document({"error": told})
    return int(told["exit_code"])


def _usage(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    return f"{context.get_usage()}\ntry: {context.command_path} --help"


def _broken_pipe(session: Session) -> int:
    """The reader of our output has gone: end quietly."""
    session.abandon()
    return EXIT_SIGNAL + signal.SIGPIPE
