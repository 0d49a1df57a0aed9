"""Outcomes as they are compared and shown."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from runyard.spec.codec import decode_as
from runyard.spec.outcome import ErrorInfo, OutcomeRow, digest_content
from runyard.spec.shown import jsonable
from runyard.spec.status import COMPLETED, Status


@dataclass(frozen=True, slots=True)
class ShownOutcome:
    """What of an outcome is compared and shown."""

    content: tuple[int, bytes]  # what of it goes into the digest
    status: str
    value: Any  # plain JSON
    error: str | None
    trace: str

    @property
    def text(self) -> str:
        """The outcome on one line."""
        shown = self.error if self.error is not None else json.dumps(self.value)
        return f"{self.status} {shown}"

    @property
    def hash(self) -> str:
        """The hash of its part of the digest."""
        return hashlib.sha256(self.content[1]).hexdigest()

    def difference(self, now: ShownOutcome) -> str:
        """This recorded outcome and the present one below it; with hashes if they look alike."""
        alike = self.text == now.text
        marks = [f"  (sha256 {each.hash[:16]})" if alike else "" for each in (self, now)]
        return f"  recorded: {self.text}{marks[0]}\n  now:      {now.text}{marks[1]}"

    def to_data(self) -> dict[str, Any]:
        """The outcome as plain JSON."""
        return {
            "status": self.status,
            "value": self.value,
            "error": self.error,
            "hash": self.hash,
        }


def shown(row: OutcomeRow, codec: str, allowed: str) -> ShownOutcome:
    """An outcome to show; a pickled value is decoded only if `allowed` is "pickle"."""
    info = None if row.error is None else ErrorInfo.decode(row.error)
    value = None
    if row.status == COMPLETED and row.value is not None:
        if codec == "pickle" and allowed != "pickle":
            value = f"(pickled, {len(row.value):,} bytes; --codec pickle shows it)"
        else:
            value = jsonable(decode_as(codec, row.value))
    return ShownOutcome(
        digest_content(row),
        str(Status.of(row.status)),
        value,
        None if info is None else f"{info.kind}: {info.message}",
        "" if info is None else info.trace,
    )
