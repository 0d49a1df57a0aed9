"""What tests of stores share: batches, rows and the stores themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from databases import postgres_url
from memory_store import MemoryStore

from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import COMPLETED
from runyard.store import open_store
from runyard.store.base import Store, Transaction
from runyard.store.rows import BatchRow

KINDS = ("sqlite", "postgres", "memory", "model")
"""Every store there is, and the model they are compared with; one conformance suite for all."""


def store_of(kind: str, folder: Path) -> Store:
    if kind == "model":
        return MemoryStore()
    places = {"sqlite": lambda: folder / "yard", "postgres": postgres_url}
    return open_store(places[kind]() if kind in places else "memory:")


def described(tx: Transaction, name: str = "b", total: int = 10, **columns: Any) -> BatchRow:
    """A batch of numbered tasks."""
    return tx.create_batch(**{**_columns(name), "plan": b"plan", "total": total, **columns})


def listed(tx: Transaction, name: str = "b", **columns: Any) -> BatchRow:
    """A batch whose tasks are added one by one."""
    return tx.create_batch(**{**_columns(name), "plan": None, "total": 0, **columns})


def _columns(name: str) -> dict[str, Any]:
    return {
        "name": name, "identity": b"identity", "options": b"options", "code": b"code",
        "seed": str(2**100), "root": "/root", "priority": 1,
    }  # fmt: skip


def task(
    name: str | None = None, priority: int = 1, after: Sequence[int] = ()
) -> tuple[str | None, int, bytes, Sequence[int]]:
    return name, priority, f"content of {name}".encode(), after


def outcome(
    batch: int,
    number: int,
    status: int = COMPLETED,
    *,
    started: float = 5.0,
    seconds: float = 0.5,
    worker: int = 1,
) -> OutcomeRow:
    value = f"value {number}".encode() if status == COMPLETED else None
    error = None if status == COMPLETED else ErrorInfo("E", f"m{number}", "", "").encode()
    return OutcomeRow.with_checksum(
        batch, number, status, 0, value, error, started, seconds, worker
    )


def outcomes(batch: int, numbers: Sequence[int], status: int = COMPLETED) -> list[OutcomeRow]:
    return [outcome(batch, number, status) for number in numbers]
