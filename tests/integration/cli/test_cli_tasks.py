"""Tasks named on the command line: what exists is found, also after others were forgotten."""

from __future__ import annotations

from command_line import Call
from sample_tasks import double

import runyard as ry
from runyard.spec.codec import decode, encode


def half_forgotten() -> None:
    """A list of ten tasks: five are forgotten, and the others are still to be run."""
    with ry.Yard(".runyard") as yard:
        batch = ry.tasks([ry.Task(double, {"x": x}) for x in range(10)], name="b", seed=1)
        yard.run(batch, backend="serial", budget={"tasks": 5})
        with yard.store.transaction() as tx:
            found = tx.batch("b")
            assert found is not None
            assert tx.forget(found.id) == 5


def test_tasks_are_found_whose_predecessors_were_forgotten(cli: Call) -> None:
    half_forgotten()
    assert cli("logs", "b/9", "--json").last["status"] == "unfinished"
    said = cli("repro", "b/9", "--json")
    assert (said.code, said.last["now"]["value"]) == (0, 18)


def test_a_task_that_was_forgotten_or_never_was_is_named_with_the_reason(cli: Call) -> None:
    half_forgotten()
    for command in ("logs", "repro", "cancel"):
        gone = cli(command, "b/2")
        assert gone.code == 5
        assert "there is no task b/2" in gone.err
        assert "removed from the record" in gone.err
        never = cli(command, "b/10")
        assert never.code == 5
        assert "its tasks are 0 to 9" in never.err


def test_a_retried_task_is_still_found(cli: Call) -> None:
    words = ["run", "sample_tasks:fails", "--grid", "x=0..3", "--name", "b", "--backend", "serial"]
    assert cli(*words).code == 1
    with ry.Yard(".runyard") as yard:
        assert yard.retry("b") == 2
    assert cli("logs", "b/3", "--json").last["status"] == "unfinished"
    assert cli("repro", "b/3", "--json").last["recorded"] is None


def test_a_batch_with_an_option_of_a_newer_version_is_refused_by_its_name(cli: Call) -> None:
    with ry.Yard(".runyard") as yard:
        yard.run(ry.grid(double, x=[1], name="b", seed=1), backend="serial", retries=2)
        with yard.store.transaction() as tx:
            row = tx.batch("b")
            assert row is not None
            assert decode(row.options) == {"retries": 2}, "defaults are stored"
            tx.update_batch(row.id, options=encode({"retries": 2, "colour": "red"}))
    for words in (("resume", "b"), ("verify", "b"), ("report", "b")):
        said = cli(*words)
        assert said.code == 3, said
        assert "newer version" in said.err
        assert "no option 'colour'" in said.err
        assert "upgrade Runyard" in said.err
    assert cli("status", "b").code == 0
    assert cli("results", "b").code == 0
