"""`runyard letitride compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.letitride.run import configured, size_options, warm
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import table
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.report.results import SimulationResults
    from runyard.stats.compare_result import Comparison


_UNITS = {
    "profit": "base bets a session",
    "wagered": "base bets a session",
    "hands": "hands a session",
    "drawdown": "base bets",
}


@click.command(
    epilog=examples(
        "runyard letitride compare basic.yaml aggressive.yaml --sessions 20000",
        "runyard letitride compare a.yaml b.yaml c.yaml --metric won",
    )
)
@click.argument("configs", metavar="CONFIG CONFIG…", nargs=-1, required=True)
@size_options
@click.option(
    "--metric",
    type=click.Choice(["profit", "won", "hands", "wagered", "drawdown", "ruined"]),
    default="profit",
    show_default=True,
    help="Metric of sessions to compare; profit, wagered and drawdown are in base bets.",
)
@click.option("--level", type=click.FloatRange(0.5, 0.9999), default=0.95, show_default=True,
              help="Confidence level of intervals.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show no progress.")
@shared
def compare(session: Session, configs: tuple[str, ...], **given: Any) -> int:
    """Compare configurations session by session, on the same cards."""
    from runyard.doors.letitride.report.comparison import compare_results

    wanted = _configurations(configs, given)
    note = (lambda text: None) if given["quiet"] else session.note  # noqa: ARG005
    from runyard.doors.letitride.simulate.controller import SimulationController

    found: dict[str, SimulationResults] = {}
    with session.yard(create=True) as yard:
        for name, config in wanted.items():
            controller = SimulationController(
                config, given["workers"], backend=given["backend"], yard=yard
            )
            job = controller.job()
            warm(controller, job, note)
            batch = controller.batch(job)
            found[name] = controller.run_batch(batch, job, progress=not given["quiet"])
        comparisons = compare_results(found, given["metric"], given["level"])
        for each in comparisons:
            session.say(style(each.words(_UNITS.get(given["metric"], "")), bold=each.shown))
        session.say()
        session.say(_table(found, comparisons, given["metric"]))
        session.document(
            {
                "metric": given["metric"],
                "seed": next(iter(found.values())).seed,
                "batches": {name: results.name for name, results in found.items()},
                "comparisons": [each.to_data() for each in comparisons],
                "aggregates": {name: each.aggregate.to_data() for name, each in found.items()},
            }
        )
    return 0


def _configurations(paths: tuple[str, ...], given: dict[str, Any]) -> dict[str, FullConfig]:
    """Read configurations; return them by name, with the same seed."""
    from runyard.spec.seeds import choose_root

    if len(paths) < 2:
        raise UsageError("a comparison needs at least two configurations", hint="name another one")
    read = [configured(path, given) for path in paths]
    given_seeds = [config.simulation.random_seed for config in read]
    seeds = {seed for seed in given_seeds if seed is not None}
    if len(seeds) > 1:
        raise UsageError(
            f"the configurations have different seeds: {', '.join(map(str, sorted(seeds)))}",
            hint="sessions are paired by seed: pass --seed",
        )
    sizes = {config.simulation.num_sessions for config in read}
    if len(sizes) > 1:
        raise UsageError(
            f"the configurations have {' and '.join(f'{n:,}' for n in sorted(sizes))} sessions",
            hint="sessions are compared in pairs: pass --sessions",
        )
    seed = next(iter(seeds)) if seeds else choose_root()
    names = [config.metadata.name or Path(path).stem
             for path, config in zip(paths, read, strict=True)]  # fmt: skip
    if len(set(names)) < len(names):
        names = list(paths)
    if len(set(names)) < len(names):
        raise UsageError("a configuration is given twice", hint="name different ones")
    return {
        name: config.with_(simulation={"random_seed": seed})
        for name, config in zip(names, read, strict=True)
    }


def _table(found: dict[str, SimulationResults], comparisons: list[Comparison], metric: str) -> str:
    from runyard.stats.summary import plus_minus, show

    rows = []
    for each in comparisons:
        correlation = "" if each.correlation is None else f"{each.correlation:.2f}"
        effect = plus_minus(each.effect, each.interval.half)
        means = [show(each.mean_a), show(each.mean_b)]
        rows.append([each.a, each.b, *means, effect, each.p_text, correlation])
    sessions = next(iter(found.values())).total_sessions
    heads = ["a", "b", f"{metric} a", f"{metric} b", "a − b", "p", "correlation"]
    text = table(heads, rows, numbers=(2, 3, 4, 5, 6))
    return f"{text}\n{sessions:,} sessions of each, on the same cards"
