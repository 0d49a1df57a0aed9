"""Many runs as a batch, with one task for each run.

run_batch ──▶ batch of tasks ──▶ workers ──▶ logs of each run, in place when complete
                   │                │  └──▶ alerts while they run
                   └── records ◀────┘
                          └──▶ batch_parallel_results.json, batch_summary.txt, runs.csv
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runyard.doors.malice.batch.progress import by_tickets
from runyard.doors.malice.report.results import Runs, runs_of, tidy_logs, write_results
from runyard.doors.malice.run.experiment import IMMUNE, Config, MaliceExperiment
from runyard.doors.malice.run.models import Agents, Moderation, model_params
from runyard.doors.malice.run.task import FOLDER, logs_folder, malice, parts_maker, parts_of
from runyard.doors.malice.society.immune import Mode
from runyard.doors.malice.society.rules import Rules
from runyard.errors import BadSpec, NotFound
from runyard.execution import OnEvent
from runyard.reports.comparing import compare_groups, groups_of
from runyard.reports.progress import ShowProgress, show
from runyard.spec.batch import Batch, batch
from runyard.spec.fingerprint import fingerprint
from runyard.yard import Yard

if TYPE_CHECKING:
    from runyard.llm import Mode as LlmMode
    from runyard.reports.result import Result
    from runyard.stats.compare_result import Comparison

WHOLE = "whole"
"""The unchanged variant, which the others are compared with."""

METRICS = (
    "mallory_became_binder", "mallory_ever_binder", "mallory_final_score", "mallory_reputation",
    "promotions", "total_gate_blocks", "votes_counted",
)  # fmt: skip
"""The metrics on which variants are compared."""


@dataclass
class MaliceBatch:
    """The results of a batch of runs, and its files."""

    result: Result
    folder: Path
    variants: list[Runs]
    files: list[Path]
    comparisons: list[Comparison] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # finished runs whose logs are missing

    @property
    def records(self) -> list[dict[str, Any]]:
        """The completed runs, of all variants."""
        return [record for runs in self.variants for record in runs.records]

    def __repr__(self) -> str:
        return f"<MaliceBatch {self.result.name}: {self.result.headline()}>"

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report with this door's section; return its path."""
        import runyard.doors.malice.report.section  # noqa: F401  registers itself

        return self.result.report(path)


def describe(
    runs: int = 30,
    tickets: int = 60,
    *,
    seed: int | None = None,
    tag: str | None = None,
    immune: Mode = "logged",
    without: Sequence[str] | str = (),
    grid: Mapping[str, Iterable[float]] | None = None,
    parts: str | None = None,
    agents: Agents = "rules",
    model: str | None = None,
    llm: LlmMode | None = None,
    tape: str | Path | None = None,
    moderation: Moderation | None = None,
) -> Batch:
    """Describe the batch; each part left out and each point of the grid is a variant.

    Run r has the same random numbers in every variant and in every batch with the same seed.
    With `agents="llm"` their messages come from `model`; `llm` says whether its calls are made and
    recorded on `tape`, replayed from it, or only made ("live", the default), and `moderation`
    whether harassment is scored by the "model" or by the moderation "endpoint".
    """
    config = Config(tickets=tickets, immune=immune)
    if type(runs) is not int or runs < 1:
        raise BadSpec(f"runs is {runs!r}", hint="use a whole number, 1 or more")
    if tag == "":
        raise BadSpec("the tag is empty", hint="leave it out, or give the batch a name")
    asked = {"model": model, "llm": llm, "tape": tape, "moderation": moderation}
    fixed: dict[str, Any] = {"tickets": tickets, **model_params(agents, asked, parts, seed)}
    sources = {}
    if parts is not None:
        if not isinstance(parts, str):
            raise BadSpec(
                f"parts is {parts!r}",
                hint="name the function that makes them, as module:function; each worker calls it",
            )
        fixed["parts"] = parts
        sources[parts] = _code(parts, config)
    left_out = [without] if isinstance(without, str) else without
    variants = _variants(immune, list(dict.fromkeys(left_out)), grid or {})
    if len(variants) == 1:
        fixed["immune"], variants = immune, []
    described = batch(
        malice,
        variants=variants or None,
        params=fixed,
        replicates=runs,
        seed=seed,
        name=None if tag is None else f"{FOLDER}-{tag}",
        common_random_numbers=True,
    )
    return msgspec.structs.replace(described, sources=sources)


def run_batch(
    runs: int = 30,
    tickets: int = 60,
    *,
    workers: int | None = None,
    backend: str = "processes",
    seed: int | None = None,
    tag: str | None = None,
    immune: Mode = "logged",
    without: Sequence[str] | str = (),
    grid: Mapping[str, Iterable[float]] | None = None,
    parts: str | None = None,
    agents: Agents = "rules",
    model: str | None = None,
    llm: LlmMode | None = None,
    tape: str | Path | None = None,
    moderation: Moderation | None = None,
    yard: Yard | str | Path | None = None,
    progress: ShowProgress = None,
    on_event: OnEvent | None = None,
    fresh: bool = False,
    **options: Any,
) -> MaliceBatch:
    """Run a batch, or continue it, and write its results; `describe` explains its parameters.

    If interrupted, keep the finished runs, write their results and raise.
    """
    described = describe(
        runs, tickets, seed=seed, tag=tag, immune=immune, without=without, grid=grid, parts=parts,
        agents=agents, model=model, llm=llm, tape=tape, moderation=moderation,
    )  # fmt: skip
    place = yard if isinstance(yard, Yard) else Yard(yard)
    name = described.record_name
    try:
        result = carry_out(
            described, place, backend=backend, workers=workers, progress=progress,
            on_event=on_event, fresh=fresh, **options,
        )  # fmt: skip
    except (KeyboardInterrupt, SystemExit):
        with suppress(NotFound):  # nothing was recorded yet
            collect(place, name)
        raise
    return collect(place, name, result)


def carry_out(
    described: Batch, yard: Yard, *, progress: ShowProgress = None, **place: Any
) -> Result:
    """Run a batch made by `describe`, showing progress in tickets."""
    assert described.plan is not None
    tickets = described.plan.fixed["tickets"]
    with show(yard.bus, progress, by_tickets(tickets)):
        return yard.run(described, progress=False, **place)


def collect(yard: Yard, name: str, result: Result | None = None) -> MaliceBatch:
    """Write and return the results of the finished runs of a batch.

    `result` is that of the run just ended, which knows whether anything ran.
    """
    result = result or yard.results(name)
    folder = yard.batch_folder(name)
    found = MaliceBatch(result, folder / FOLDER, runs_of(result), [])
    running = result.stats.workers  # another engine's, whose runs are not finished
    variants = found.variants
    for runs in variants:
        home = logs_folder(folder, runs.name)
        if not running:
            lost = tidy_logs(home, [record["run_id"] for record in runs.records])
            whose = "" if runs.name is None else f"{runs.name}, "
            found.lost += [f"{whose}run {number}" for number in lost]
        found.files += write_results(runs, result, home)
    if len(variants) > 1 and all(len(runs.records) > 1 for runs in variants):
        found.comparisons = compare_variants(result, variants)
    return found


def compare_variants(result: Result, variants: Sequence[Runs]) -> list[Comparison]:
    """Compare each variant with the whole experiment, run by run on common random numbers."""
    baseline = str(variants[0].name)
    return [
        comparison
        for metric in METRICS
        for comparison in compare_groups(
            groups_of(result, metric, "variant"), metric, baseline=baseline, better="lower"
        )
    ]


def _variants(
    immune: Mode, without: Sequence[str], grid: Mapping[str, Iterable[float]]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": WHOLE, "immune": immune}]
    for part in without:
        Config(without=(part,))
        mode = "off" if part == IMMUNE else immune
        found.append({"name": f"without {part}", "immune": mode, "without": [part]})
    points = {name: _numbers(name, values) for name, values in grid.items()}
    for values in product(*points.values()) if points else ():
        rules = dict(zip(points, values, strict=True))
        Rules.of(rules)
        label = " ".join(f"{name}={_short(value)}" for name, value in rules.items())
        found.append({"name": label, "immune": immune, "rules": rules})
    return found


def _numbers(name: str, values: Any) -> list[float]:
    """Read the numbers of one rule in a grid, which must differ."""
    hint = f"give a list of numbers, each once: {name}=4,5,6"
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadSpec(f"the grid's {name} is {values!r}", hint=hint)
    found = list(values)
    if not found or len(set(found)) < len(found):
        raise BadSpec(f"the grid's {name} is {found}", hint=hint)
    return found


def _short(value: float) -> str:
    """The shortest text that gives the same number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _code(parts: str, config: Config) -> str:
    """A hash of the code that makes the parts; invalid parts are refused here."""
    MaliceExperiment(config, parts_of(parts))
    return fingerprint(parts_maker(parts, os.getcwd()))
