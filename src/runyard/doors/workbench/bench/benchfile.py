"""A bench described in a file: TOML, or a Python object with the same keys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runyard.attempt.load import load_object
from runyard.doors.workbench.bench.result import BenchResult
from runyard.doors.workbench.bench.workbench import Workbench
from runyard.doors.workbench.describe.variants import Variant
from runyard.doors.workbench.evaluate.named import named
from runyard.errors import BadBatchFile, BadSpec
from runyard.spaces import near, read_text
from runyard.spec import toml
from runyard.spec.names import did_you_mean


class BenchFile(msgspec.Struct, frozen=True):
    """The content of a bench file."""

    graph: Any
    variants: list[Any] | None = None
    cases: Any = None  # a list, or the path of a dataset
    implementations: dict[str, dict[str, Any]] = {}  # by node and name
    evaluators: dict[str, Any] = {}
    gate: str | list[str] = []  # conditions that `runyard workbench run` judges
    repetitions: int = 1
    name: str | None = None
    seed: int | None = None
    llm: Any = None  # record, replay or live
    tape: str | None = None  # the file that calls of language models are recorded on
    settings: dict[str, Any] = {}  # checkpoints, breakpoints, cache, strict, share_prefix, …
    options: dict[str, Any] = {}  # of the engine: timeout, retries, keep, …

    @property
    def gates(self) -> list[str]:
        """The conditions of `gate`."""
        return [self.gate] if isinstance(self.gate, str) else list(self.gate)

    def run(self, bench: Workbench, **given: Any) -> BenchResult:
        """Run it; what is given replaces what the file says."""
        self._register(bench)
        own: dict[str, Any] = {
            "repetitions": self.repetitions, "name": self.name, "seed": self.seed,
            "llm": self.llm, "tape": self.tape,
            **self.settings, **self.options,
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not None}
        evaluators = self._evaluators()
        return bench.run_batch(
            self.graph, self.variants, self.cases, evaluators=evaluators or None, **{**own, **given}
        )

    def check(self, bench: Workbench, gates: Sequence[str]) -> None:
        """Refuse gates that name what the bench will not have, before it runs."""
        from runyard.doors.workbench.evaluate.evaluators import read_evaluators
        from runyard.doors.workbench.evaluate.gates import check

        if gates:
            evaluators = read_evaluators(self._evaluators())
            check(gates, self.labels(bench)[0], [each.name for each in evaluators])

    def labels(self, bench: Workbench) -> tuple[list[str], list[str]]:
        """The names of its variants and cases; refuses what `run` would refuse."""
        self._register(bench)
        return bench.labels(self.graph, self.variants, self.cases, **self.settings)

    def _evaluators(self) -> Any:
        if not isinstance(self.evaluators, Mapping):
            return self.evaluators
        return {name: named(each, os.getcwd()) for name, each in self.evaluators.items()}

    def _register(self, bench: Workbench) -> None:
        for node, names in self.implementations.items():
            for name, implementation in names.items():
                bench.variant(node, name, implementation)


_FIELDS = BenchFile.__struct_fields__
_KINDS: dict[str, tuple[Any, str]] = {
    "implementations": (Mapping, "a table of nodes"),
    "variants": ((list, tuple, type(None)), "a list"),
    "gate": ((str, list, tuple), "a condition, or a list of them"),
    "llm": ((str, type(None)), "a mode"),
    "tape": ((str, os.PathLike, type(None)), "a path"),
    "settings": (Mapping, "a table"),
    "options": (Mapping, "a table"),
}


def read_bench(text: str) -> BenchFile:
    """The bench of a TOML file, or of `module:name`: a dict, or a function that returns one."""
    if not text.endswith(".toml"):
        found = load_object(text, os.getcwd())
        return _checked(found() if callable(found) else found, text)
    path = Path(text)
    try:
        content = toml.loads(read_text(path))
    except FileNotFoundError:
        raise BadBatchFile(f"there is no bench file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadBatchFile(f"the bench file {path} can't be read: {error}") from None
    except ValueError as error:
        raise BadBatchFile(f"{path} is not valid TOML: {error}") from None
    return _relative(_checked(content, text), near(path.resolve().parent))


def _checked(content: Any, source: str) -> BenchFile:
    if isinstance(content, BenchFile):
        return content
    if not isinstance(content, Mapping):
        raise BadSpec(f"{source} is {content!r:.60}", hint="it must be a dict, or return one")
    unknown = [key for key in content if key not in _FIELDS]
    if unknown:
        raise BadBatchFile(
            f"{source}: there is no key {unknown[0]!r}{did_you_mean(unknown[0], _FIELDS)}",
            hint=f"the keys: {', '.join(_FIELDS)}",
        )
    _check_kinds(content, source)
    missing = [key for key in ("graph", "cases") if key not in content]
    if missing:
        raise BadBatchFile(f"{source} has no {missing[0]!r}")
    return BenchFile(**content)


def _check_kinds(content: Mapping[str, Any], source: str) -> None:
    """Refuse values of another kind than their key has."""
    for key, (kind, meant) in _KINDS.items():
        if key in content and not isinstance(content[key], kind):
            raise BadBatchFile(f"{source}: {key} is {content[key]!r:.60}", hint=f"give {meant}")
    for gate in content.get("gate", ()):
        if not isinstance(gate, str):
            raise BadBatchFile(f"{source}: a gate is {gate!r:.60}", hint="write a condition")
    for node, names in content.get("implementations", {}).items():
        if not isinstance(names, Mapping):
            raise BadBatchFile(
                f"{source}: the implementations of {node!r} are {names!r:.60}",
                hint='give a table: { name = "file.py:function" }',
            )


def _relative(found: BenchFile, folder: Path) -> BenchFile:
    """What a TOML file names is relative to its folder."""

    def placed(value: Any) -> Any:
        if isinstance(value, str) and ".py:" in value and not Path(value).is_absolute():
            return str(folder / value)
        if isinstance(value, Mapping) and "use" in value:
            made = {**value, "use": placed(value["use"])}
            return made | ({"tape": str(folder / value["tape"])} if "tape" in value else {})
        return value

    def variant(each: Any) -> Any:
        if not isinstance(each, Mapping):
            return each
        nodes = each.get("nodes", {key: v for key, v in each.items() if key not in _OWN})
        if not isinstance(nodes, Mapping):
            raise BadBatchFile(f"the nodes of a variant are {nodes!r:.60}", hint="give a table")
        own = {key: each[key] for key in _OWN if key in each}
        if "graph" in own:
            own["graph"] = placed(own["graph"])
        return Variant({node: placed(value) for node, value in nodes.items()}, **own)

    if not isinstance(found.evaluators, Mapping):
        raise BadBatchFile(
            f"evaluators is {found.evaluators!r:.60}", hint="give a table: name = evaluator"
        )
    cases = found.cases
    return msgspec.structs.replace(
        found,
        graph=placed(found.graph),
        cases=str(folder / cases) if isinstance(cases, str) else cases,
        tape=str(folder / found.tape) if isinstance(found.tape, str) else found.tape,
        variants=None if found.variants is None else list(map(variant, found.variants)),
        implementations={
            node: {name: placed(value) for name, value in names.items()}
            for node, names in found.implementations.items()
        },
        evaluators={name: placed(value) for name, value in found.evaluators.items()},
    )


_OWN = ("config", "context", "graph", "name")


def _object(value: Any) -> Any:
    return load_object(value, os.getcwd()) if isinstance(value, str) else value
