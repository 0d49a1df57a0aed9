"""Judges: language models that score an output by a rubric, or choose the better of two.

    rubric, input, output ──▶ model × repeats ──▶ mean of the scores that could be read
    two outputs ──▶ model, in both orders ──▶ a winner if both agree, otherwise a tie

An answer that can't be read counts as missing, and so does the score if there is no other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

from runyard.errors import BadSpec, ModelError
from runyard.events.plain import json_safe

Mode = Literal["record", "replay", "live"]
Chat = Callable[..., Any]

_SCORE = """You grade the output of a program by a rubric. Judge only what the rubric asks for.
Answer with one JSON object and nothing else: {{"reason": "<one sentence>", "score": <number>}}
The score is a number from {low:g} (worst) to {high:g} (best)."""

_PAIR = """You compare two outputs of programs for the same input, by a rubric. Their order says \
nothing.
Answer with one JSON object and nothing else: {"reason": "<one sentence>", "better": <answer>}
The answer is "first", "second" or "tie"."""


@dataclass(frozen=True)
class _Asking:
    """What judges have in common: the rubric, the model, and a tape of its answers."""

    rubric: str
    model: str | None = None
    repeats: int = 1
    tape: str | Path | None = None  # a file of recorded answers
    llm: Mode = "live"  # with a tape: record or replay
    options: Mapping[str, Any] = field(default_factory=dict)  # of each request: temperature, …
    chat: Chat | None = None  # instead of `runyard.llm.chat`

    waits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.rubric, str) or not self.rubric.strip():
            raise BadSpec("a judge needs a rubric", hint='rubric="Is the answer correct?"')
        if type(self.repeats) is not int or self.repeats < 1:
            raise BadSpec(f"repeats is {self.repeats!r}", hint="use a whole number from 1 up")
        if self.llm != "live" and self.tape is None:
            raise BadSpec(f"llm={self.llm!r} needs a tape", hint='tape="judge.jsonl"')

    def _ask(self, system: str, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that the model answers."""
        from runyard import llm

        chat = self.chat or llm.chat
        text = "\n\n".join(f"{name}:\n{_text(value)}" for name, value in parts.items())
        answer = chat(text, model=self.model, system=system, **self.options)
        return object_in(answer if isinstance(answer, str) else answer.text)

    def _recording(self, cell: str) -> AbstractContextManager[Any]:
        if self.tape is None:
            return nullcontext()
        from runyard import llm

        return llm.tape(Path(self.tape), mode=self.llm, cell=cell)


@dataclass(frozen=True)
class Judge(_Asking):
    """Scores by a rubric: the mean of `repeats` answers, on a scale from worst to best."""

    scale: Sequence[float] = (0, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.scale) != 2 or not self.scale[0] < self.scale[1]:
            raise BadSpec(f"scale is {self.scale!r}", hint="write the worst and the best: (1, 5)")

    @property
    def identity(self) -> list[Any]:
        """What tells it from other judges; where its answers come from does not."""
        return [self.rubric, self.model, self.repeats, list(self.scale), dict(self.options)]

    def __call__(self, inputs: Any, outputs: Any, reference: Any, cell: Any) -> dict[str, Any]:
        """The score, a reason, and each answer."""
        low, high = self.scale
        system = _SCORE.format(low=low, high=high)
        parts = {"Rubric": self.rubric, "Input": inputs, "Output": outputs}
        if reference is not None:
            parts["Reference"] = reference
        answers: list[tuple[float, str]] = []
        problems: list[str] = []
        with self._recording(_name("judge", cell, self.rubric)):
            for _ in range(self.repeats):
                try:
                    found = self._ask(system, parts)
                    answers.append((_score(found, low, high), str(found.get("reason", ""))))
                except Exception as error:
                    problems.append(f"{type(error).__name__}: {error}")
        if not answers:
            raise ModelError(f"no answer of the judge could be used: {problems[0]}")
        scores = [score for score, _ in answers]
        mean = fmean(scores)
        reason = min(answers, key=lambda each: abs(each[0] - mean))[1]
        if problems:
            reason += f" ({len(problems)} of {self.repeats} answers could not be used)"
        return {"score": mean, "reason": reason, "scores": scores, "problems": problems}


@dataclass(frozen=True)
class Preference:
    """Which of two outputs is better."""

    value: float | None  # 1: the first, 0: the second, 0.5: neither; None: it could not be told
    consistent: bool  # whether both orders gave the same answer
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class PairJudge(_Asking):
    """Chooses the better of two outputs. Each is shown first once: only a choice that does not
    depend on the order counts, anything else is a tie."""

    def prefer(
        self, inputs: Any, first: Any, second: Any, reference: Any = None, *, cell: str = "pair"
    ) -> Preference:
        """Compare two outputs for the same input."""
        values: list[float] = []
        reasons: list[str] = []
        consistent = True
        with self._recording(cell):
            for _ in range(self.repeats):
                try:
                    found = [
                        self._once(inputs, *pair, reference)
                        for pair in ((first, second), (second, first))
                    ]
                except Exception as error:
                    reasons.append(f"{type(error).__name__}: {error}")
                    continue
                (one, why), (swapped, why_swapped) = found
                same = one == 1 - swapped
                consistent = consistent and same
                values.append(one if same else 0.5)
                reasons += [why, why_swapped]
        if not values:
            return Preference(None, True, tuple(reasons))
        return Preference(fmean(values), consistent, tuple(reasons))

    def _once(self, inputs: Any, a: Any, b: Any, reference: Any) -> tuple[float, str]:
        parts = {"Rubric": self.rubric, "Input": inputs, "First output": a, "Second output": b}
        if reference is not None:
            parts["Reference"] = reference
        found = self._ask(_PAIR, parts)
        better = str(found.get("better")).strip().lower()
        if better not in _CHOICES:
            raise ModelError(f"the judge answered better={found.get('better')!r}")
        return _CHOICES[better], str(found.get("reason", ""))


_CHOICES = {"first": 1.0, "second": 0.0, "tie": 0.5}


def object_in(text: str) -> dict[str, Any]:
    """The first JSON object in a text, which models like to wrap in words."""
    decoder = json.JSONDecoder()
    for at in _braces(text):
        try:
            found, _ = decoder.raw_decode(text, at)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise ModelError(f"the judge's answer has no JSON object: {text!r:.200}")


def _braces(text: str) -> Iterator[int]:
    return (at for at, letter in enumerate(text) if letter == "{")


def _score(found: Mapping[str, Any], low: float, high: float) -> float:
    value = found.get("score")
    if isinstance(value, str):
        value = float(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ModelError(f"the judge's score is {value!r}")
    if not low <= value <= high:
        raise ModelError(f"the judge's score {value:g} is not from {low:g} to {high:g}")
    return float(value)


def _name(kind: str, cell: Any, rubric: str) -> str:
    return f"{kind}/{cell.variant}/{cell.case}/{cell.repetition}/{rubric[:40]}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(json_safe(value), ensure_ascii=False, indent=1, sort_keys=True)
