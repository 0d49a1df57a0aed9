"""Writes the files that a configuration asks for: CSV, JSON, the HTML report, and charts."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from runyard import clock
from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine.columns import COUNTS, PERCENT
from runyard.doors.letitride.game.game import STOP_REASONS
from runyard.doors.letitride.game.money import CENT, cents
from runyard.doors.letitride.report import charts
from runyard.doors.letitride.report.aggregate import by_seat
from runyard.doors.letitride.report.hands import HandRecord, hand_records, trajectories
from runyard.doors.letitride.report.results import OUTCOMES, SessionResult
from runyard.errors import UsageError
from runyard.reports.sheets import write_csv
from runyard.spaces import whole_file

if TYPE_CHECKING:
    from runyard.doors.letitride.report.results import SimulationResults


def check_output(config: FullConfig) -> None:
    """Refuse output that can't be written, before anything is played."""
    shown = config.output.visualizations
    if shown.enabled and shown.charts and shown.format == "png":
        charts.png_maker()


def write_files(results: SimulationResults, directory: str | Path | None = None) -> list[Path]:
    """Write all requested files; return their paths."""
    config = results.config
    check_output(config)
    folder = Path(directory or config.output.directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return list(_written(results, folder / config.output.prefix))
    except OSError as error:
        raise UsageError(
            f"{folder} can't be written: {error.strerror or error}", hint="choose another --output"
        ) from error


def _written(results: SimulationResults, start: Path) -> Iterator[Path]:
    output = results.config.output
    formats, shown = output.formats, output.visualizations
    if formats.csv.enabled:
        yield from _tables(results, start)
    if formats.json.enabled:
        yield _json(results, _named(start, "results.json"))
    if formats.html.enabled:
        yield results.report(_named(start, "report.html"))
    for at, each in enumerate(shown.charts if shown.enabled else (), start=1):
        svg = charts.chart(each, results.aggregate, lambda n: trajectories(results, n))
        again = sum(other.type == each.type for other in shown.charts[: at - 1])
        name = f"{each.type}_{again + 1}" if again else each.type
        yield charts.write(svg, _named(start, f"{name}.svg"), shown.format, shown.dpi)


def _tables(results: SimulationResults, start: Path) -> Iterator[Path]:
    wanted = results.config.output.formats.csv
    if wanted.include_sessions:
        yield _csv(_named(start, "sessions.csv"), _SESSION_HEADS, _session_rows(results))
    if wanted.include_aggregate:
        figures = flat_figures(results.aggregate.to_data())
        yield _csv(_named(start, "aggregate.csv"), ("figure", "value"), figures)
    if wanted.include_seat_aggregate:
        seats = enumerate(by_seat(results), start=1)
        by_figure = ((seat, *row) for seat, each in seats for row in flat_figures(each.to_data()))
        heads = ("seat_number", "figure", "value")
        yield _csv(_named(start, "seat_aggregate.csv"), heads, by_figure)
    if wanted.include_hands:
        hands = map(msgspec.structs.astuple, hand_records(results))
        yield _csv(_named(start, "hands.csv"), HandRecord.__struct_fields__, hands)


def flat_figures(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All figures with their dotted paths."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from flat_figures(value, f"{path}.{key}" if path else key)
    else:
        yield path, "" if data is None else data


_SESSION_HEADS = (
    *(name for name in SessionResult.__struct_fields__ if name != "hand_counts"),
    *FIVE_CARD_NAMES,
)


def _session_rows(results: SimulationResults) -> Iterator[Sequence[Any]]:
    """The rows of `session_results`, built by column: millions of rows take seconds."""
    start, seats = cents(results.config.bankroll.starting_amount), results.seats
    for first, columns in results.blocks():
        rows = np.arange(len(columns["hands_played"]))
        profit = columns["final_bankroll"] - start
        made: dict[str, Any] = {
            "session_id": first + rows // seats,
            "seat_number": 1 + rows % seats,
            "outcome": np.array(OUTCOMES)[np.sign(profit) + 1],
            "stop_reason": np.array(STOP_REASONS)[columns["stop_reason"]],
            "hands_played": columns["hands_played"],
            "starting_bankroll": np.full(len(rows), start / CENT),
            "session_profit": profit / CENT,
            PERCENT: columns[PERCENT],
            **dict(zip(FIVE_CARD_NAMES, columns[COUNTS].T, strict=True)),
        }
        ordered = (made[name] if name in made else columns[name] / CENT for name in _SESSION_HEADS)
        yield from zip(*(column.tolist() for column in ordered), strict=True)


def _json(results: SimulationResults, path: Path) -> Path:
    config = results.config
    moment = datetime.datetime.fromtimestamp(clock.now()).astimezone()
    data: dict[str, Any] = {
        "batch": results.name,
        "seed": results.seed,
        "digest": results.digest,
        "written": moment.strftime(config.output.timestamp_format),
        "metadata": msgspec.to_builtins(config.metadata),
        "aggregate": results.aggregate.to_data(),
    }
    if config.output.formats.json.include_config:
        data["config"] = config.to_data()
    indent = 2 if config.output.formats.json.pretty else None
    with whole_file(path) as place:
        place.write_text(json.dumps(data, indent=indent) + "\n", encoding="utf-8")
    return path


def _csv(path: Path, heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    with whole_file(path) as place, place.open("w", newline="", encoding="utf-8") as file:
        write_csv(file, chain([heads], rows))
    return path


def _named(start: Path, name: str) -> Path:
    return start.with_name(f"{start.name}_{name}")
