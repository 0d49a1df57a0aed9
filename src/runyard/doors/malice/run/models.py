"""A run whose agents are driven by a language model; its calls are a cell of a tape."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from runyard import llm
from runyard.doors.malice.run.experiment import Parts
from runyard.doors.malice.society.gates import published_gates
from runyard.doors.malice.society.personas import (
    HarassmentGate,
    Question,
    model_agents,
)
from runyard.doors.malice.society.symbols import CIVIL
from runyard.errors import BadSpec, ModelError

Agents = Literal["rules", "llm"]
AGENTS: tuple[Agents, ...] = get_args(Agents)
Moderation = Literal["model", "endpoint"]
MODERATIONS: tuple[Moderation, ...] = get_args(Moderation)
MODES: tuple[llm.Mode, ...] = ("live", "record", "replay")

HARASSMENT = "harassment"
"""The category of the moderation endpoint that counts."""

_RATE = (
    "You moderate a group chat. Rate how much a message insults or harasses people, from 0 (not "
    "at all) to 1 (severely). Answer with the number only."
)
_AGAIN = "Answer with one number from 0 to 1, and nothing else."
_NUMBER = re.compile(r"-?\d*\.?\d+")


def model_params(
    agents: Agents, asked: Mapping[str, Any], parts: str | None, seed: int | None
) -> dict[str, Any]:
    """The parameters of runs with these agents, those left out without a value; checks them."""
    given = {name: value for name, value in asked.items() if value is not None}
    _check("agents", agents, AGENTS)
    if agents == "rules":
        if given:
            name = next(iter(given))
            raise BadSpec(f"--{name} is for agents of a model", hint="add --agents llm")
        return {}
    mode, tape = given.get("llm", "live"), given.get("tape")
    if not given.get("model"):
        raise BadSpec("the agents need a model", hint="name one: --model gpt-4o-mini")
    if parts is not None:
        raise BadSpec("--parts and --agents llm both give the agents", hint="leave out one of them")
    _check("llm", mode, MODES)
    _check("moderation", given.get("moderation", MODERATIONS[0]), MODERATIONS)
    if (mode == "live") != (tape is None):
        raise BadSpec(
            f"--llm {mode} is given with{'out' if tape is None else ''} a tape",
            hint="record and replay need --tape FILE, live records nothing",
        )
    if tape is not None:
        given["tape"] = os.fspath(tape)
        _check_tape(Path(tape), mode, seed)
    return given


def _check(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise BadSpec(f"{name} is {value!r}", hint=f"use one of: {', '.join(known)}")


def _check_tape(tape: Path, mode: str, seed: int | None) -> None:
    """Refuse what would fail in each run, after calls that cost money."""
    if mode == "record" and not tape.absolute().parent.is_dir():
        raise BadSpec(f"there is no folder for the tape {tape}", hint="make it first")
    if mode == "replay" and not tape.is_file():
        raise BadSpec(f"there is no tape {tape}", hint="record it first, with --llm record")
    if mode == "replay" and seed is None:
        raise BadSpec("a replay needs the seed of the recording", hint="add --seed N")


def play_with_model(
    play: Callable[[Parts], dict[str, Any]],
    cell: str,
    model: str,
    mode: llm.Mode,
    tape: str | None,
    moderation: Moderation,
) -> dict[str, Any]:
    """Play a run with a model's agents; add its scores and costs to the record."""
    by_model = moderation == "model"
    civil = HarassmentGate(partial(score_by_model, model) if by_model else score_by_endpoint)
    kept = [gate for gate in published_gates() if gate.name != CIVIL]
    parts = Parts(agents=model_agents(partial(ask, model)), gates=[*kept, civil])
    with llm.tape(tape, mode, cell) as calls:
        record = play(parts)
    scores = civil.scores
    return {
        **record,
        "messages_scored": len(scores),
        "harassment_mean": fmean(scores) if scores else None,
        "harassment_max": max(scores, default=None),
        **calls.usage.metrics(),
    }


def ask(model: str, question: Question) -> str:
    """The model's words."""
    answer = llm.chat(question.prompt, model=model, system=question.system, seed=question.seed)
    return answer.text


def score_by_model(model: str, text: str) -> float:
    """The model's score of harassment, from 0 to 1; asks once more if it can't be read."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for _ in range(2):
        answer = llm.chat(messages, model=model, system=_RATE)
        score = read_score(answer.text)
        if score is not None:
            return score
        messages += [answer.message, {"role": "user", "content": _AGAIN}]
    raise ModelError(
        f"{model} was asked twice for a score from 0 to 1, and answered {answer.text[:200]!r}",
        hint="moderate by the endpoint (--moderation endpoint), or use another model",
    )


def score_by_endpoint(text: str) -> float:
    """The moderation endpoint's score of harassment."""
    scores = llm.moderate(text)
    if HARASSMENT not in scores:
        raise ModelError(
            f"the moderation endpoint gave no score of {HARASSMENT}",
            hint=f"it has scores of: {', '.join(scores) or 'nothing'}",
        )
    return scores[HARASSMENT]


def read_score(text: str) -> float | None:
    """The only number in a text, if it is from 0 to 1."""
    found = _NUMBER.findall(text)
    score = float(found[0]) if len(found) == 1 else math.nan
    return score if 0 <= score <= 1 else None
