"""By what a call is found again in the next run of its script.

The key of a call: its function's code, a hash of its arguments, and how many equal calls came
before it. Arguments that have a canonical form are hashed in it; others as pickled, so that a call
whose arguments don't pickle the same way twice (a set of texts, say) is run again.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from runyard.errors import NotEncodable
from runyard.spec.codec import encode
from runyard.spec.fingerprint import fingerprint
from runyard.spec.task import Target

_OF_THE_RUN = ("sklearn.callback.",)
"""Modules whose objects say when and for whom a call is made, not what it is to do."""

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Keys:
    """Keys of the calls of one run, in the order in which they are made."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._counting = threading.Lock()

    def next(self, calls: Sequence[Call], arguments: bytes) -> str:
        """The key of what is about to be handed in: one call, or a few that travel together."""
        content = hashlib.sha256()
        for function, args, named in calls:
            content.update(self._fingerprint(function).encode())
            content.update(_canonical(args, named) or arguments)
        found = content.hexdigest()[:32]
        with self._counting:
            again = self._seen[found]
            self._seen[found] += 1
        return f"{label(calls[0][0])}-{found}-{again}"

    def _fingerprint(self, function: Callable[..., Any]) -> str:
        """The function's fingerprint with the place it comes from."""
        target = Target.of(function)
        place = target.ref if target.kind == "import" else ""
        return f"{place} {fingerprint(function)}"


def label(function: Callable[..., Any]) -> str:
    """A short name for people."""
    inner = getattr(function, "function", None) or getattr(function, "func", None) or function
    return str(getattr(inner, "__name__", type(inner).__name__))[:60]


def _canonical(args: tuple[Any, ...], named: dict[str, Any]) -> bytes | None:
    """Bytes that are the same in every process; None where there are none such."""
    try:
        return encode([args, named])
    except NotEncodable:
        pass
    try:
        with io.BytesIO() as file:
            _Hashed(file, protocol=5).dump((args, named))
            return file.getvalue()
    except Exception:
        return None


class _Hashed(pickle.Pickler):
    """Pickles for hashing only: classes by name, and without what only tells of this very run.

    By value, as cloudpickle sends them, classes of a script get a new number in every process.
    """

    def reducer_override(self, value: Any) -> Any:
        if type(value).__module__.startswith(_OF_THE_RUN):
            return str, ()
        return NotImplemented
