"""Keys by which a call is recognised in a later run of its script.

A key is made of the function's code, a hash of the arguments, and the number of equal calls before.
Arguments are hashed in their canonical form if they have one, otherwise pickled; so a call whose
arguments don't pickle the same way twice (a set of strings, for example) is run again.
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
"""Modules whose objects describe the present run, not the call."""

KeyedCall = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Keys:
    """Keys of the calls of one run, in the order in which they are made."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._counting = threading.Lock()

    def next(self, calls: Sequence[KeyedCall], arguments: bytes) -> str:
        """The key of one call, or of several that are submitted together."""
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
    """Bytes that are the same in every process; None if there are none."""
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
    """Pickles for hashing: classes by name, and without what describes only the present run.

    By value, as cloudpickle sends them, classes of a script get a new number in every process.
    """

    def reducer_override(self, value: Any) -> Any:
        if type(value).__module__.startswith(_OF_THE_RUN):
            return str, ()
        return NotImplemented
