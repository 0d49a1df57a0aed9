"""The locks of a yard hold whatever else its process does with the files."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from polling import eventually
from store_kit import described, outcomes

from runyard.errors import StoreGone
from runyard.store.sqlite import SqliteStore

ELSEWHERE = """
import sys
from pathlib import Path
from runyard.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
with store.{kind}() as tx:
    {body}
store.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "yard" / "yard.db"


def elsewhere(path: Path, body: str, *, kind: str = "snapshot") -> subprocess.Popen[str]:
    """Another process that opens the store, does this and closes it."""
    script = ELSEWHERE.format(kind=kind, body=body)
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def copy(path: Path) -> None:
    """Read every file of the yard, as a copy of it does."""
    shutil.copytree(path.parent, path.parent.with_name("copy"), dirs_exist_ok=True)


def test_a_copy_of_the_yard_leaves_its_engine_alive(path: Path) -> None:
    store = SqliteStore(path)
    store.acquire_liveness(7)
    copy(path)
    seen = elsewhere(path, "print(store.alive(7), store.alive(8))").communicate()[0]
    assert seen.split() == ["True", "False"]
    copied = SqliteStore(path.parent.with_name("copy") / "yard.db")
    assert not copied.alive(7)
    copied.close()
    store.release_liveness(7)
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs locks of the open file")
def test_what_is_recorded_after_a_copy_survives_the_close_of_others(path: Path) -> None:
    store = SqliteStore(path)
    with store.transaction() as tx:
        batch = described(tx).id
    copy(path)
    elsewhere(path, "pass").communicate()
    with store.transaction() as tx:
        tx.record(batch, outcomes(batch, range(10)))
    found = elsewhere(path, f"print(len(list(tx.outcomes({batch}))))").communicate()[0]
    assert found.split() == ["10"]
    store.close()


def test_others_wait_for_a_transaction_in_which_the_yard_is_copied(path: Path) -> None:
    store = SqliteStore(path)
    with store.transaction() as tx:
        batch = described(tx).id
        copy(path)
        body = f"print('in'); print(len(list(tx.outcomes({batch}))))"
        other = elsewhere(path, body, kind="transaction")
        assert not eventually(lambda: other.poll() is not None, seconds=1.0)
        tx.record(batch, outcomes(batch, range(10)))
    assert other.communicate()[0].split() == ["in", "10"]
    store.close()


def test_the_last_one_that_closes_a_store_leaves_one_file(path: Path) -> None:
    one, other = SqliteStore(path), SqliteStore(path)
    one.close()
    with other.transaction() as tx:
        described(tx)
    other.close()
    assert {each.name for each in path.parent.iterdir()} == {"yard.db", "yard.lock"}


def test_a_store_that_was_closed_can_be_read_again(path: Path) -> None:
    store = SqliteStore(path)
    with store.transaction() as tx:
        described(tx)
    store.close()
    with store.snapshot() as view:
        assert len(view.batches()) == 1
    store.close()


def test_a_lock_of_a_closed_file_is_let_go_without_an_error(path: Path) -> None:
    """As it is where Ctrl-C comes inside a transaction, which ends when its generator does."""
    store = SqliteStore(path)
    transaction = store.transaction()
    transaction.__enter__()
    store._lock.close()
    transaction.__exit__(None, None, None)
    store.close()


def test_a_forked_child_holds_none_of_the_locks(path: Path) -> None:
    store = SqliteStore(path)
    store.acquire_liveness(7)
    go, wait = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(wait)
        os.read(go, 1)  # until the parent closes its end
        os._exit(0)

    def held() -> set[str]:
        found = set()
        for entry in Path(f"/proc/{child}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                found.add(entry.readlink().name)
        return found & {"7.alive", "yard.lock"}

    try:
        assert eventually(lambda: not held())
    finally:
        os.close(wait)
        os.waitpid(child, 0)
        os.close(go)
    assert store.alive(7)
    store.release_liveness(7)
    assert not store.alive(7)
    store.close()


@pytest.mark.parametrize("name", ["yard.db", "yard.db-wal", "yard.db-shm", "run/7.alive"])
def test_a_store_whose_files_were_removed_says_so_and_records_nothing(
    path: Path, name: str
) -> None:
    store = SqliteStore(path)
    with store.transaction() as tx:
        batch = described(tx).id
    store.acquire_liveness(7)
    (path.parent / name).unlink()
    with pytest.raises(StoreGone, match="was removed"), store.transaction() as tx:
        tx.record(batch, outcomes(batch, range(10)))
    store.release_liveness(7)
    store.close()


def test_a_store_made_anew_at_its_place_is_not_written_to(path: Path) -> None:
    store = SqliteStore(path)
    shutil.rmtree(path.parent)
    fresh = SqliteStore(path)
    with pytest.raises(StoreGone), store.transaction() as tx:
        described(tx)
    with pytest.raises(StoreGone), store.snapshot():
        pass
    with fresh.snapshot() as view:
        assert view.batches() == []
    store.close()
    with fresh.transaction() as tx:
        described(tx)
    fresh.close()


def test_a_store_replaced_during_a_commit_is_an_error(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreGone), store.transaction() as tx:
        described(tx)
        path.rename(path.with_name("away"))
    store.close()


def test_a_yard_that_was_moved_and_linked_to_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    away = path.parent.with_name("away")
    path.parent.rename(away)
    path.parent.symlink_to(away)
    with store.transaction() as tx:
        described(tx)
    store.close()
    again = SqliteStore(path)
    with again.snapshot() as view:
        assert len(view.batches()) == 1
    again.close()


def test_threads_and_stores_of_one_process_take_turns(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(3)]
    with stores[0].transaction() as tx:
        batch = described(tx, total=300).id

    def write(store: SqliteStore, first: int) -> None:
        for task in range(first, first + 100, 10):
            with store.transaction() as tx:
                tx.record(batch, outcomes(batch, range(task, task + 10)))

    threads = [
        threading.Thread(target=write, args=(store, 100 * n)) for n, store in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with stores[0].snapshot() as view:
        assert len(list(view.outcomes(batch))) == 300
    for store in stores:
        store.close()
