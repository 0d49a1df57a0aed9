"""Where the cells of a bench get their language models' answers from: the network or a tape.

On the tape, cells are told apart by variant, case and repetition, so that a bench can grow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from runyard.errors import BadSpec

Mode = Literal["record", "replay", "live"]
MODES: tuple[str, ...] = get_args(Mode)


class Calls(msgspec.Struct, frozen=True):
    """How calls are made. Not part of a batch's identity: it travels with the batch's function."""

    mode: Mode
    tape: str | None  # an absolute path
    prefixes: dict[str, str] = {}  # the first variant of those that share a prefix, by its key

    def with_prefixes(self, variants: list[dict[str, Any]]) -> Calls:
        """A copy that names the shared prefixes of these variants."""
        names: dict[str, str] = {}
        for each in variants:
            if "prefix" in each:
                names.setdefault(each["prefix"]["key"], each["variant"])
        return msgspec.structs.replace(self, prefixes=names)

    def cell_of_prefix(self, key: str, case: str, repetition: int) -> str:
        """What the calls of a shared prefix are filed under, as any of its cells may run it."""
        return f"prefix {_joined(self.prefixes[key], case, repetition)}"


def read_calls(llm: Mode | None, tape: str | os.PathLike[str] | None) -> Calls | None:
    """The arguments `llm` and `tape`; raises for what can't work, and makes sure of the tape."""
    if llm is None:
        if tape is not None:
            raise BadSpec("a tape needs a mode", hint='llm="record", or llm="replay"')
        return None
    if llm not in MODES:
        raise BadSpec(f"llm is {llm!r}", hint=f"use one of: {', '.join(map(repr, MODES))}")
    if tape is None:
        if llm != "live":
            raise BadSpec(f"llm={llm!r} needs a tape", hint='tape="calls.jsonl"')
        return Calls(llm, None)
    path = Path(tape).absolute()
    if llm == "replay":
        from runyard.llm.tapefile import cells

        cells(path)  # raises if it can't be read
    elif llm == "record":
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()  # where it is missing, the disk is not shared
        except OSError as error:
            raise BadSpec(f"the tape {path} can't be written: {error.strerror}") from None
    return Calls(llm, str(path))


def cell_on_tape(params: Mapping[str, Any], repetition: int) -> str:
    """What a cell's calls are filed under; those of a fork under its source, too."""
    name = _joined(params["variant"], params["case"], repetition)
    start = params.get("start")
    return name if start is None else f"{name} from {start['source']}"


def _joined(variant: str, case: str, repetition: int) -> str:
    parts = (each.replace("%", "%25").replace("/", "%2F") for each in (variant, case))
    return "/".join([*parts, str(repetition)])
