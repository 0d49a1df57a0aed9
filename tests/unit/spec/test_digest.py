from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import StoreDamaged
from runyard.spec.codec import encode
from runyard.spec.digest import digest
from runyard.spec.outcome import ErrorInfo, OutcomeRow, digest_content, error_class

contents = st.lists(st.tuples(st.integers(2, 4), st.binary(max_size=100)), max_size=10)


def row(
    task: int = 0, status: int = 2, value: bytes | None = b"\xc0", error: bytes | None = None,
    attempt: int = 0, started: float = 1.0, seconds: float = 0.5, worker: int = 1,
) -> OutcomeRow:  # fmt: skip
    return OutcomeRow.with_checksum(
        9, task, status, attempt, value, error, started, seconds, worker
    )


@given(contents)
def test_the_digest_is_the_hash_of_place_status_and_content_hash(
    outcomes: list[tuple[int, bytes]],
) -> None:
    whole = b"".join(
        struct.pack("<QB", place, status) + hashlib.sha256(content).digest()
        for place, (status, content) in enumerate(outcomes)
    )
    assert digest(outcomes) == hashlib.sha256(whole).hexdigest()


def test_the_digest_of_many_outcomes_is_that_of_all_of_them() -> None:
    outcomes = [(2, encode(n)) for n in range(10_000)]
    assert digest(iter(outcomes)) == digest(outcomes)
    assert len({digest(outcomes[:n]) for n in (2_047, 2_048, 2_049, 9_999, 10_000)}) == 5


@given(contents.filter(bool), st.data())
def test_any_change_of_an_outcome_changes_the_digest(
    outcomes: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(outcomes) - 1))
    status, content = outcomes[at]
    changed = data.draw(st.sampled_from([(7, content), (status, content + b"x")]))
    assert digest([*outcomes[:at], changed, *outcomes[at + 1 :]]) != digest(outcomes)


def test_times_workers_and_attempts_play_no_part() -> None:
    one = row()
    other = row(attempt=3, started=99.0, seconds=7.0, worker=5)
    assert digest_content(one) == digest_content(other)


def test_of_an_error_the_class_counts_and_nothing_else() -> None:
    one = ErrorInfo("ValueError", "bad 1", "a.py:1 in f", "…").encode()
    other = ErrorInfo("ValueError", "bad 2", "b.py:9 in g", "").encode()
    third = ErrorInfo("KeyError", "bad 1", "a.py:1 in f", "…").encode()
    contents = [digest_content(row(status=3, value=None, error=e)) for e in (one, other, third)]
    assert contents[0] == contents[1] != contents[2]
    assert error_class(one) == b"ValueError"
    assert error_class(None) == b""


def test_a_failed_and_a_cancelled_task_differ() -> None:
    error = ErrorInfo("TaskCancelled", "", "", "").encode()
    assert digest_content(row(status=3, error=error)) != digest_content(row(status=4, error=error))


def test_an_error_survives_being_recorded() -> None:
    info = ErrorInfo("ValueError", "ünï\n", "a.py:1 in f", "trace")
    assert ErrorInfo.decode(info.encode()) == info


@pytest.mark.parametrize("column", OutcomeRow._fields)
def test_a_change_in_any_column_of_an_outcome_is_found(column: str) -> None:
    whole = row(error=b"e")
    assert whole.check(9) is whole
    changed = {"value": b"other", "error": b"other"}.get(column, 12345)
    with pytest.raises(StoreDamaged, match="checksum"):
        whole._replace(**{column: changed}).check(9)


def test_an_outcome_moved_to_another_batch_is_found() -> None:
    with pytest.raises(StoreDamaged):
        row().check(8)
