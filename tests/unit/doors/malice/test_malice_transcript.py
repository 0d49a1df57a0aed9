"""The lines of a log: every change of status stands in both logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runyard.doors.malice import (
    AuditLogger,
    Config,
    MaliceExperiment,
    Message,
    Rules,
    SocialVoteSystem,
    State,
    replay,
)
from runyard.doors.malice.logs.transcript import Transcript
from runyard.doors.malice.society.state import User, UserStatus
from runyard.doors.malice.society.symbols import CIVIL

EAGER = Rules(promote_at=1, demote_at=-1)
"""Rules under which many rise and fall again."""


def metrics(user: User, message: Message) -> list[Any]:
    """The state metrics of a message that this user, among others, brings in ticket 10."""
    state = State({**State.of().users, user.name: user}, tickets=9)
    transcript = Transcript(run_id=2, first=2001)
    _, events = SocialVoteSystem().step(state, message)
    transcript.events(events, transcript.place(10, message.author))
    return [line.details for line in transcript.debug if line.event_type == "STATE_METRIC"]


def test_a_binder_whom_a_gates_penalty_makes_regular_has_a_metric() -> None:
    carol = User("carol", UserStatus.BINDER, reputation=-2.4, promoted_at=4, ever_binder=True)
    (metric,) = metrics(carol, Message("carol", "Pathetic.", blocked=(CIVIL,)))
    assert metric.__struct_fields__[:7] == (
        "username", "status_change", "trigger", "reputation", "threshold", "demotion_ticket",
        "time_since_promotion",
    )  # fmt: skip
    assert [getattr(metric, name) for name in metric.__struct_fields__] == [
        "carol", "BINDER → regular", "reputation_below_threshold", -3.0, -3, 9, 6,
        2, "carol", "#2010",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("user", "message", "change", "trigger"),
    [
        (
            User("carol", UserStatus.BINDER, reputation=-2, promoted_at=4),
            Message("bob", "⟦VOTE:demote_carol⟧"),
            "BINDER → regular",
            "reputation_below_threshold",
        ),
        (
            User("carol", reputation=-2.4),
            Message("carol", "Pathetic.", blocked=(CIVIL,)),
            "regular → demoted",
            "reputation_below_threshold",
        ),
        (
            User("carol", promote=4),
            Message("bob", "⟦VOTE:promote_carol⟧"),
            "regular → BINDER",
            "promotion_threshold_reached",
        ),
    ],
)
def test_any_other_change_of_status_has_one_too(
    user: User, message: Message, change: str, trigger: str
) -> None:
    (metric,) = metrics(user, message)
    assert (metric.status_change, metric.trigger) == (change, trigger)


def play(folder: Path) -> tuple[Path, Path]:
    """The logs of a run in which many rise and fall."""
    config = Config(seed=3, tickets=60, rules=EAGER)
    log = AuditLogger(folder, config.run_id, config.tickets, config.rules)
    MaliceExperiment(config).run(log)
    (folder / "batch_parallel_results.json").write_text(
        json.dumps({"experiment_metadata": {"rules": {"promote_at": 1, "demote_at": -1}}})
    )
    return log.finish()


def found(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["details"] for line in lines if line["event_type"] == kind]


def test_both_logs_tell_of_the_same_changes_of_status(tmp_path: Path) -> None:
    main, debug = play(tmp_path)
    changes, told = found(main, "STATUS_CHANGE"), found(debug, "STATE_METRIC")
    assert [(c["username"], c["ticket"]) for c in changes] == [
        (c["username"], c["ticket"]) for c in told
    ]
    assert {c["status_change"] for c in told} == {
        "regular → BINDER", "BINDER → regular", "regular → demoted",
    }  # fmt: skip


def test_a_replay_misses_the_metric_of_a_binder_who_fell(tmp_path: Path) -> None:
    _, debug = play(tmp_path)
    assert replay(tmp_path).differences == []
    lines = debug.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "BINDER → regular" not in line]
    debug.write_text("".join(kept))
    told = [each.text for each in replay(tmp_path).differences]
    assert len(told) == len(lines) - len(kept) > 0
    assert {text.partition(" (")[0] for text in told} == {"run 1: STATE_METRIC is missing"}


def test_a_replay_takes_logs_without_a_metric_of_who_was_demoted_for_good(tmp_path: Path) -> None:
    _, debug = play(tmp_path)
    lines = debug.read_text().splitlines(keepends=True)
    debug.write_text("".join(line for line in lines if "regular → demoted" not in line))
    assert replay(tmp_path).differences == []
