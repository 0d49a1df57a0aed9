"""One run: its record, its logs, and what a seed promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runyard.doors.malice import AuditLogger, Config, MaliceExperiment, Parts
from runyard.doors.malice.logs.audit import first_ticket
from runyard.doors.malice.report.statistics import distribution, mallory_rates, rate, winners
from runyard.doors.malice.society.agents import Malicious, Promoter
from runyard.errors import BadSpec


def logged(folder: Path, config: Config, parts: Parts | None = None) -> list[Path]:
    log = AuditLogger(folder, config.run_id, config.tickets, config.rules)
    MaliceExperiment(config, parts).run(log)
    return list(log.finish())


def test_a_seed_gives_the_same_run_and_the_same_bytes(tmp_path: Path) -> None:
    config = Config(seed=11, tickets=80)
    assert MaliceExperiment(config).run() == MaliceExperiment(config).run()
    one, two = (logged(tmp_path / name, config) for name in ("a", "b"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    assert MaliceExperiment(Config(seed=12, tickets=80)).run() != MaliceExperiment(config).run()


def test_logging_changes_nothing(tmp_path: Path) -> None:
    config = Config(seed=4)
    log = AuditLogger(tmp_path)
    assert MaliceExperiment(config).run(log) == MaliceExperiment(config).run()


def test_every_line_carries_the_run_the_author_and_the_ticket(tmp_path: Path) -> None:
    main, debug = logged(tmp_path, Config(run_id=3, seed=4))
    for path in (main, debug):
        for line in path.read_text().splitlines():
            details = json.loads(line)["details"]
            assert details["run_id"] == 3
            assert details["author"]
            assert details["ticket"]
    tickets = [
        json.loads(line)["details"].get("ticket_id") for line in debug.read_text().splitlines()
    ]
    assert [each for each in tickets if each] == list(range(3001, 3061))


def test_nothing_appears_before_it_is_whole(tmp_path: Path) -> None:
    log = AuditLogger(tmp_path, tickets=1500)
    MaliceExperiment(Config(seed=4, tickets=1500)).run(log)
    assert list(tmp_path.glob("*.jsonl")) == []
    assert list(tmp_path.rglob("*.partial"))
    assert all(path.exists() for path in log.finish())
    assert not list(tmp_path.rglob("*.partial"))


class Odd:
    """Says what no stencil must trip over."""

    name = "odd"

    def speak(self, scene: object) -> str:
        return '100% \ue000 \ue002 %(run)s "quoted" \\ ⟦VOTE:promote_odd⟧'


def test_whatever_is_said_is_logged_as_it_was_said(tmp_path: Path) -> None:
    parts = Parts(agents=[Odd()])
    _, debug = logged(tmp_path, Config(tickets=3), parts)
    said = [json.loads(line)["details"].get("message") for line in debug.read_text().splitlines()]
    assert [each for each in said if each] == [parts.agents[0].speak(None)] * 3


@pytest.mark.parametrize("tickets", [1, 60, 999, 1000, 1001, 1500, 123_456])
def test_blocks_of_tickets_never_meet(tickets: int) -> None:
    for run in (1, 2, 9, 10, 99, 1000):
        last = first_ticket(run, tickets) + tickets - 1
        assert last < first_ticket(run + 1, tickets)
    assert first_ticket(1, 60) == 1001
    assert first_ticket(2, 60) == 2001


def test_alerts_tell_who_rose_and_when() -> None:
    told: list[str] = []
    friends = [Promoter(name) for name in ("alice", "bob", "carol", "dave", "eve", "zara", "finn")]
    record = MaliceExperiment(Config(run_id=3, tickets=200), Parts(agents=friends)).run(
        alert=told.append
    )
    ticket, name = record["rises"][0]
    assert told[0] == f"run 3: {name} → BINDER at ticket {ticket}"
    assert record["user_final_states"][name]["promoted_at"] == ticket


def test_the_winner_is_whoever_ends_as_binder_first_promoted() -> None:
    found = [MaliceExperiment(Config(seed=seed)).run() for seed in range(40)]
    assert {record["winner"] is None for record in found} == {True, False}
    for record in found:
        binders = {n: s for n, s in record["user_final_states"].items() if s["status"] == "BINDER"}
        assert (record["winner"] in binders) if binders else record["winner"] is None


def test_what_an_experiment_does_without_leaves_the_others_numbers_as_they_are() -> None:
    whole, without = (
        MaliceExperiment(Config(seed=3, without=parts)).run() for parts in ((), ("civil",))
    )
    assert whole["civil_gate_blocks"] > 0
    assert without["civil_gate_blocks"] == 0
    assert whole["run_time_seconds"] == without["run_time_seconds"]
    same = [u["messages_sent"] for u in whole["user_final_states"].values()]
    assert same == [u["messages_sent"] for u in without["user_final_states"].values()]


def test_a_logged_immune_system_changes_nothing_and_a_wired_one_does() -> None:
    runs = {
        mode: [MaliceExperiment(Config(seed=s, immune=mode)).run() for s in range(5)]
        for mode in ("off", "logged", "wired")
    }
    votes = {
        mode: [r["votes_counted"] + sum(r["votes_ignored"].values()) for r in found]
        for mode, found in runs.items()
    }
    assert votes["off"] == votes["logged"]
    assert all(few < many for few, many in zip(votes["wired"], votes["logged"], strict=True))
    assert [r["immune_adjustments"] for r in runs["logged"]] == [1] * 5
    assert [r["immune_adjustments"] for r in runs["off"]] == [0] * 5


def test_users_of_ones_own_take_part() -> None:
    record = MaliceExperiment(
        Config(tickets=30), Parts(agents=[Promoter("ann"), Malicious("mallory")])
    ).run()
    assert set(record["user_final_states"]) == {"ann", "mallory"}


@pytest.mark.parametrize(
    "wrong", [{"tickets": 0}, {"tickets": 2.5}, {"immune": "on"}, {"without": ("votes",)}]
)
def test_a_config_that_can_not_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadSpec, match=next(iter(wrong)) if "without" not in wrong else "votes"):
        Config(**wrong)


def test_rates_have_both_denominators_and_keep_ever_and_final_apart() -> None:
    def run(final: bool, ever: bool) -> dict[str, bool]:
        return {"mallory_became_binder": final, "mallory_ever_binder": ever}

    batches = [[run(False, True)] + [run(False, False)] * 29, [run(False, False)] * 30, []]
    found = mallory_rates(batches)
    assert found["final"]["runs"]["successes"] == 0
    ever = found["ever"]
    assert (ever["runs"]["successes"], ever["runs"]["total"]) == (1, 60)
    assert (ever["batches"]["successes"], ever["batches"]["total"]) == (1, 2)
    assert ever["runs"]["low"] < 1 / 60 < ever["runs"]["high"]


def test_figures_of_nothing_are_none() -> None:
    assert rate(0, 0)["rate"] is None
    assert set(distribution([]).values()) == {0, None}
    assert winners([{"winner": None}, {"winner": "bob"}]) == {"bob": 1, "none": 1}
