"""What this door adds to a batch's HTML report; importing this registers it."""

from __future__ import annotations

from runyard.doors.malice import pictures
from runyard.doors.malice.results import Runs, document, runs_of
from runyard.doors.malice.summary import number, share
from runyard.doors.malice.task import malice
from runyard.reports.html import (
    Html,
    ReportContext,
    Section,
    element,
    facts,
    join,
    paragraph,
    register,
    table,
    tiles,
)
from runyard.spec.task import Target
from runyard.store.recorded import Recorded

ORDER = 5
_OWN = Target.of(malice)


def is_ours(recorded: Recorded) -> bool:
    """Whether a batch is one of this door's runs."""
    return recorded.target == _OWN


def malice_section(context: ReportContext) -> Section | None:
    """Figures and pictures of each variant; nothing while no run has completed."""
    shown = [runs for runs in runs_of(context.result) if runs.records]
    if not shown:
        return None
    parts = [_part(runs, context) for runs in shown]
    return Section("Who gets promoted", join(parts), order=ORDER)


def _part(runs: Runs, context: ReportContext) -> Html:
    records = runs.records
    names = pictures.users_of(records)
    head = [] if runs.name is None else [element("h3", runs.name)]
    return join(
        [
            *head,
            *_figures(runs, context),
            pictures.promotions(records),
            pictures.reputations(records),
            pictures.network(records),
            table(
                ["voter", *names],
                pictures.vote_rows(records),
                caption="Counted votes a run: + for, − against",
            ),
            pictures.blocks(records),
            pictures.won(records),
        ]
    )


def _figures(runs: Runs, context: ReportContext) -> list[Html]:
    found = document(runs, context.result)
    about, threat = found["experiment_metadata"], found["threat_analysis"]
    binder = threat["mallory_binder"]
    failed = about["failed_runs"]
    shown = tiles(
        [
            ("runs completed", f"{about['successful_runs']:,} of {about['total_runs']:,}", ""),
            ("failed, counted nowhere", f"{failed:,}", "bad" if failed else ""),
            ("mallory ends as BINDER", binder["final"]["runs"]["successes"], ""),
            ("mallory ever BINDER", binder["ever"]["runs"]["successes"], ""),
            ("mallory's mean score", number(threat["mallory_score_stats"]["mean"]), ""),
        ]
    )
    told = facts(
        [
            ("ends as BINDER, of runs", share(binder["final"]["runs"])),
            ("ever BINDER, of runs", share(binder["ever"]["runs"])),
            ("ever BINDER, of batches", share(binder["ever"]["batches"])),
            (
                "mallory's messages blocked",
                share(found["defense_system_stats"]["mallory_messages_blocked"]),
            ),
            ("runs with one adjustment", share(found["immune_system"]["reliability"])),
            ("immune system", about["immune"]),
            ("without", ", ".join(about["without"])),
            ("rules", ", ".join(f"{k} = {v:g}" for k, v in about["rules"].items())),
        ]
    )
    note = paragraph("Rates are over completed runs; tickets count from 1 in each.", class_="aside")
    return [shown, told, note]


register(is_ours, malice_section)
