"""A batch written by hand, replayed: every event, and the place of each that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from malice_batch import EVENTS, NAME, line, write_batch

from runyard.doors.malice import replay
from runyard.doors.malice.logs.dataset import batch_folders, read_batch
from runyard.errors import NotFound, UsageError

LOG = f"events/{NAME}_d1m.jsonl"
METRICS = f"metrics/{NAME}_metrics_d1m.jsonl"
METRIC_LINES = [
    line("VOTE_METRIC", voter="mallory", target="promote_mallory", weighted_value=0.2,
         calculation_factors={"self_vote_multiplier": 0.2}, vote_count_after=0.2),
    line("VOTE_METRIC", voter="dave", target="demote_mallory", weighted_value=0.968,
         calculation_factors={"self_vote_multiplier": 1.0}, vote_count_after=1.968),
]  # fmt: skip


@pytest.fixture(params=["folders", "root"])
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The batch in each of both layouts."""
    return write_batch(tmp_path / "batch", at_root=request.param == "root")


def test_every_event_of_a_published_run_is_reproduced(batch: Path) -> None:
    found = replay(batch)
    assert found.differences == []
    assert found.compared.total() == found.equal.total() == len(EVENTS)
    assert found.scores == (1, 1)
    assert found.runs_equal == 1


def test_what_the_summary_says_against_its_log_is_told(batch: Path) -> None:
    found = replay(batch).contradictions
    assert len(found) == 2
    assert found[0].startswith("run 1: mallory_reputation: the summary says -4.336, the log -4.93")
    assert found[1] == "run 1: civil_gate_blocks: the summary says 1, the log 2"


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every number in a value, and of every ticket."""
    if isinstance(value, dict):
        return [place for k, v in value.items() for place in numbers(v, (*path, k))]
    if isinstance(value, str) and value.startswith("#"):
        return [path]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


def one_more(value: Any) -> Any:
    return f"#{int(value[1:]) + 1}" if isinstance(value, str) else value + 1


PLACES = [
    (number, place) for number, event in enumerate(EVENTS) for place in numbers(event["details"])
]


@pytest.mark.parametrize(("number", "place"), PLACES)
def test_any_number_that_was_changed_is_found_at_its_place(
    tmp_path: Path, number: int, place: tuple[str, ...]
) -> None:
    folder = write_batch(tmp_path)

    def change(lines: list[dict[str, Any]]) -> None:
        holder = lines[number]["details"]
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = one_more(holder[place[-1]])

    edit(folder / LOG, change)
    found = replay(folder).differences
    at = [each for each in found if each.where == f"{NAME}_d1m.jsonl:{number + 1}"]
    if place == ("ticket",):  # it is one too many where it now belongs
        assert at
        return
    # A penalty is taken from the log, so that it shows in the reputation after it.
    expected = "new_reputation" if place == ("penalty",) else ".".join(place)
    assert expected in [each.field for each in at]


def test_a_line_that_is_missing_or_too_many_is_one_difference(tmp_path: Path) -> None:
    folder = write_batch(tmp_path)
    edit(folder / LOG, lambda lines: lines.pop(2))
    (missing,) = replay(folder).differences
    assert (missing.event, missing.ticket, missing.logged) == ("VOTE_COUNT_UPDATE", 1001, None)
    edit(write_batch(tmp_path) / LOG, lambda lines: lines.insert(2, lines[1]))
    (extra,) = replay(folder).differences
    assert (extra.event, extra.ticket, extra.computed) == ("VOTE_PROCESSING", 1001, None)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("run_id", 2, ["run_id is 2, the rules give 1"]),
        ("ticket_id", 1007, ["ticket_id is 1007, the rules give 1006"]),
    ],
)
def test_a_message_of_another_run_or_out_of_its_turn_is_a_difference(
    tmp_path: Path, field: str, value: int, told: list[str]
) -> None:
    folder = write_batch(tmp_path)
    edit(folder / METRICS, lambda lines: lines[-1]["details"].update({field: value}))
    found = [each.text for each in replay(folder).differences]
    assert [text for text in told if text in found[0]] == told


def test_a_line_of_the_second_log_may_be_missing_everywhere_or_nowhere(tmp_path: Path) -> None:
    folder = write_batch(tmp_path)
    edit(folder / METRICS, lambda lines: lines.extend(METRIC_LINES))
    assert replay(folder).differences == []
    edit(folder / METRICS, lambda lines: lines.pop())
    (missing,) = replay(folder).differences
    assert missing.text == f"run 1: VOTE_METRIC is missing ({NAME}_d1m.jsonl)"


@pytest.mark.parametrize(
    ("kept", "missing"), [("events", "every AGENT_MESSAGE"), ("metrics", "every event")]
)
def test_a_run_of_which_a_file_is_missing_is_one_difference(
    tmp_path: Path, kept: str, missing: str
) -> None:
    folder = write_batch(tmp_path)
    name = LOG if kept == "events" else METRICS
    other = folder / name.replace("_r01_", "_r02_")
    other.write_text((folder / name).read_text())
    found = replay(folder)
    assert (found.runs, found.runs_equal) == (2, 1)
    assert [each.text for each in found.differences] == [
        f"run 2: {missing} is missing ({other.name})"
    ]


def test_a_score_that_the_summary_has_wrong_is_a_difference(tmp_path: Path) -> None:
    folder = write_batch(tmp_path)
    path = folder / "batch_results" / "batch.json"
    path.write_text(
        path.read_text().replace('"mallory_final_score": 0.2', '"mallory_final_score": 1')
    )
    (found,) = replay(folder).differences
    assert (found.field, found.logged, found.computed) == ("mallory_final_score", 1, 0.2)
    assert found.where == "batch.json"


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no runs"):
        read_batch(tmp_path)
    with pytest.raises(NotFound, match="folder not found"):
        read_batch(tmp_path / "nowhere")


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    folder = write_batch(tmp_path)
    with (folder / LOG).open("a") as file:
        file.write('{"event_type": "VOTE_IG')
    with pytest.raises(UsageError, match=rf"{NAME}_d1m.jsonl:{len(EVENTS) + 1} is not an event"):
        replay(folder)
    (write_batch(tmp_path) / LOG).write_bytes(b'{"event_type": "caf\xe9"}')
    with pytest.raises(UsageError, match=rf"{NAME}_d1m.jsonl:1 is not an event"):
        replay(str(folder))


def test_a_folder_of_batches_is_taken_as_all_of_them(tmp_path: Path) -> None:
    places = [write_batch(tmp_path / name) for name in ("one", "two")]
    assert batch_folders(tmp_path) == places
    assert batch_folders(places[0]) == [places[0]]


def edit(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change some lines of a log."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
