from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runyard import clock, faults
from runyard.errors import NotFound, StoreDamaged, StoreError, StoreFull
from runyard.events import AuditLog, TaskFailed, read, repair, to_record, verify

LINES = 6

reused_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def records(count: int = LINES, start: int = 0) -> list[dict[str, Any]]:
    kinds = "TaskFailed", "TaskRetried"
    return [{"event": kinds[n % 2], "task": n} for n in range(start, start + count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of six lines."""
    path = tmp_path / "events.jsonl"
    log = AuditLog(path)
    log.append(records())
    return path


def events(path: Path) -> list[str]:
    return [record["event"] for record in read(path)]


def test_what_was_appended_is_read_in_order(path: Path) -> None:
    found = list(read(path))
    assert [record["seq"] for record in found] == [1, 2, 3, 4, 5, 6]
    assert [record["task"] for record in found] == [0, 1, 2, 3, 4, 5]


def test_each_line_is_chained_to_the_one_before_as_the_docs_say(path: Path) -> None:
    previous = "0" * 32
    for line in path.read_bytes().splitlines():
        record = json.loads(line)
        assert record["prev"] == previous
        previous = record.pop("hash")
        canonical = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
        assert hashlib.sha256(canonical).hexdigest()[:32] == previous
        assert list(record)[:3] == ["seq", "prev", "event"]


def test_a_sound_log_is_reported_as_such(path: Path) -> None:
    report = verify(path)
    assert report.ok
    assert report.lines == LINES
    assert (report.first_bad_line, report.torn_bytes, report.reason) == (None, 0, None)


def test_a_log_goes_on_where_the_last_one_ended(path: Path) -> None:
    for number in range(3):
        log = AuditLog(path)
        log.append(records(2, start=10 * number))
    assert verify(path).ok
    assert verify(path).lines == LINES + 6


def test_two_logs_on_one_file_take_turns(path: Path) -> None:
    one, other = AuditLog(path), AuditLog(path)
    for number in range(20):
        (one, other)[number % 2].append(records(1 + number % 3))
    assert verify(path).ok


def test_threads_may_share_a_log(path: Path) -> None:
    log = AuditLog(path)

    def work(name: int) -> None:
        for number in range(50):
            log.append([{"event": "X", "thread": name, "n": number}])

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(path).ok
    for name in range(4):
        assert [r["n"] for r in read(path) if r.get("thread") == name] == list(range(50))


def test_reading_filters_by_seq_event_and_task(path: Path) -> None:
    assert [r["seq"] for r in read(path, after=4)] == [5, 6]
    assert [r["task"] for r in read(path, event="TaskFailed")] == [0, 2, 4]
    assert [r["seq"] for r in read(path, task=3)] == [4]
    assert list(read(path, event="TaskFailed", task=3)) == []


def test_a_log_that_is_not_there_has_no_records_and_no_report(tmp_path: Path) -> None:
    assert list(read(tmp_path / "none")) == []
    with pytest.raises(NotFound):
        verify(tmp_path / "none")
    with pytest.raises(NotFound):
        repair(tmp_path / "none")
    assert not list(tmp_path.iterdir())


def test_the_log_makes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "events.jsonl"
    AuditLog(path)
    assert verify(path).ok


def test_odd_values_leave_valid_json(path: Path) -> None:
    odd = {"nan": float("nan"), "bytes": b"\xff", "object": object(), "s": "\ud800", "é": "日本\n"}
    log = AuditLog(path)
    log.append([{"event": "TaskEmitted", "data": odd}])
    *_, last = read(path)
    assert last["data"]["nan"] == "NaN"
    assert last["data"]["bytes"] == "\\xff"
    assert last["data"]["é"] == "日本\n"
    assert verify(path).ok


def test_the_keys_of_the_chain_can_not_be_forged_by_a_record(path: Path) -> None:
    log = AuditLog(path)
    log.append([{"seq": 99, "prev": "x", "hash": "y", "event": "X"}, {}])
    assert verify(path).ok
    assert verify(path).lines == LINES + 2


def test_secrets_are_taken_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "do-not-write-me")
    event = TaskFailed(
        batch="b", task=1, error="E", message="do-not-write-me, password=hunter2", where="x"
    )
    log = AuditLog(path)
    log.append([to_record(event)])
    text = path.read_text()
    assert "do-not-write-me" not in text
    assert "hunter2" not in text
    assert verify(path).ok


def test_another_redaction_can_be_given(path: Path) -> None:
    log = AuditLog(path, redact=lambda record: {**record, "task": "hidden"})
    log.append([{"event": "X", "task": 5}])
    *_, last = read(path)
    assert last["task"] == "hidden"


def test_nothing_to_append_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    log = AuditLog(path)
    log.append([])
    assert path.read_bytes() == before


@reused_folder
@given(data=st.data())
def test_a_log_cut_anywhere_is_repaired(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.sampled_from([b"", b"\0" * 70_000, b"\0", b"garbage", b"{}\n{}\n", b"x\n"]))
    torn = path.with_name("torn.jsonl")
    torn.write_bytes(whole[:cut] + (tail if cut > 20 else b""))
    kept = whole[:cut].count(b"\n")
    lost = torn.stat().st_size - len(b"".join(whole.splitlines(keepends=True)[:kept]))

    assert len(list(read(torn))) == kept
    report = verify(torn)
    assert report.ok == (lost == 0)
    assert (report.lines, report.torn_bytes, report.first_bad_line) == (kept, lost, None)

    log = AuditLog(torn)
    log.append(records(1))
    report = verify(torn)
    assert report.ok
    assert report.lines == kept + 1 + (lost > 0)
    repaired = list(read(torn, event="AuditRepaired"))
    assert [record["bytes"] for record in repaired] == ([lost] if lost else [])


@reused_folder
@given(data=st.data())
def test_any_flipped_bit_is_found(path: Path, data: st.DataObject) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    other = path.with_name("damaged.jsonl")
    other.write_bytes(damaged)
    report = verify(other)
    assert not report.ok
    assert report.reason
    assert report.first_bad_line or report.torn_bytes


def test_damage_in_the_middle_is_named_kept_and_never_read_as_data(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"TaskFailed", b"TaskFaked!")
    path.write_bytes(b"".join(lines))
    report = verify(path)
    assert (report.ok, report.first_bad_line, report.torn_bytes) == (False, 3, 0)
    assert "line 3" in (report.reason or "")
    found = read(path)
    assert [next(found)["seq"], next(found)["seq"]] == [1, 2]
    with pytest.raises(StoreDamaged, match="line 3"):
        next(found)
    log = AuditLog(path)
    log.append(records(1))
    assert lines[2] in path.read_bytes()
    assert repair(path).first_bad_line == 3


@pytest.mark.parametrize(
    ("change", "bad"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: lines[:2] + lines[3:], 3),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
        (lambda lines: [*lines[:3], b"more\n", *lines[3:]], 4),
    ],
    ids=["first line gone", "a line gone", "two swapped", "one doubled", "one put in"],
)
def test_lines_moved_about_are_found(path: Path, change: Any, bad: int) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert verify(path).first_bad_line == bad
    with pytest.raises(StoreDamaged):
        list(read(path))


def test_repair_reports_what_it_cut(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"seq":7,"pre')
    report = repair(path)
    assert report.ok
    assert report.torn_bytes == 13
    assert events(path)[-1] == "AuditRepaired"
    again = repair(path)
    assert (again.ok, again.torn_bytes, again.lines) == (True, 0, report.lines)


def test_the_repair_is_dated_by_the_clock(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)
    with clock.replaced(wall=lambda: 42.0):
        AuditLog(path)
    assert [r["at"] for r in read(path, event="AuditRepaired")] == [42.0]


def test_a_tail_torn_by_somebody_else_meanwhile_is_repaired_by_the_next_append(path: Path) -> None:
    log = AuditLog(path)
    with path.open("ab") as file:
        file.write(b'{"seq":')
    log.append(records(1))
    assert events(path)[-2:] == ["AuditRepaired", "TaskFailed"]
    assert verify(path).ok


def test_a_last_line_longer_than_one_look_back_is_found(path: Path) -> None:
    log = AuditLog(path)
    log.append([{"event": "Long", "text": "x" * 300_000}])
    with path.open("ab") as file:
        file.write(b"\0" * 200_000)
    AuditLog(path)
    assert events(path)[-2:] == ["Long", "AuditRepaired"]
    assert verify(path).ok


@pytest.mark.parametrize("content", [b"my diary\n", b'{"a":1}\n' * 5, b"x"])
def test_a_file_that_is_no_audit_log_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "diary"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="not an audit log"):
        AuditLog(path)
    assert path.read_bytes() == content


def test_a_full_disk_leaves_no_half_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    real_write = os.write
    calls = 0

    def nearly_full(fd: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device")
        return real_write(fd, data[:10])

    log = AuditLog(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", nearly_full)
        with pytest.raises(StoreFull):
            log.append(records(3))
    assert path.read_bytes() == before
    log.append(records(1))
    assert verify(path).ok
    assert verify(path).lines == LINES + 1


def test_a_failed_write_appends_nothing_and_the_next_one_works(path: Path) -> None:
    before = path.read_bytes()
    log = AuditLog(path)
    faults.arm("audit", 1, "error")
    try:
        with pytest.raises(StoreError):
            log.append(records(3))
    finally:
        faults.disarm()
    assert path.read_bytes() == before
    log.append(records(1))
    assert verify(path).ok


def test_a_folder_in_place_of_the_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="can't be written"):
        AuditLog(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_neither_waited_for_nor_written_to(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "events.jsonl"
    make(path)
    for use in (lambda: list(read(path)), lambda: verify(path), lambda: repair(path)):
        with pytest.raises(StoreDamaged, match="not a regular file"):
            use()
    with pytest.raises(StoreError):
        AuditLog(path)
