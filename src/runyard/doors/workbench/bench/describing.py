"""A bench as a batch of the engine: variants × cases × repetitions, checked before it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import msgspec

from runyard.doors.workbench.bench.packing import Packer
from runyard.doors.workbench.describe.calls import Calls
from runyard.doors.workbench.describe.cases import Case, read_cases
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.describe.variants import (
    Variant,
    check_nodes,
    implementations_hint,
    read_variants,
)
from runyard.doors.workbench.graph.opening import Opened, open_graph
from runyard.doors.workbench.graph.prints import print_of, print_of_graph
from runyard.doors.workbench.run.cell import Cells, cell
from runyard.doors.workbench.run.program import BY_VALUE, CellProgram, Local
from runyard.errors import BadSpec, BadTarget
from runyard.spec.batch import Batch, batch
from runyard.spec.codec import encode
from runyard.spec.names import slug
from runyard.spec.task import Target

Implementations = Mapping[str, Mapping[str, Any]]
"""Implementations by node and name."""

_REF = f"{cell.__module__}:{cell.__name__}"


@dataclass(frozen=True)
class Bench:
    """A described bench."""

    program: CellProgram
    variants: Sequence[Variant]
    cases: Sequence[Case]
    axes: Mapping[str, list[dict[str, Any]]]  # the variants and cases as parameters
    fixed: dict[str, Any]
    sources: Mapping[str, str]
    label: str

    @property
    def by_name(self) -> bool:
        """Whether any process can run it, since everything is found by import."""
        return not self.program.objects

    def calling(self, calls: Calls | None) -> Bench:
        """A copy whose cells call language models like this."""
        if calls is None:
            return self
        program = CellProgram(
            self.program.objects,
            self.program.settings,
            calls.with_prefixes(self.axes["variant"]),
        )
        return replace(self, program=program)

    def to_batch(
        self, repetitions: int, *, seed: int | None, name: str | None, local: bool
    ) -> Batch:
        """The batch; `local` if it runs in this process, where no object has to travel."""
        if not isinstance(repetitions, Integral) or repetitions < 1:
            raise BadSpec(
                f"repetitions is {repetitions!r:.60}", hint="use a whole number from 1 up"
            )
        made = batch(
            _REF,
            self.axes["variant"],
            self.axes["case"],
            params=self.fixed,
            replicates=repetitions,
            seed=seed,
            common_random_numbers=True,
        )
        made = msgspec.structs.replace(made, sources=dict(self.sources))
        if not self.by_name or self.program.calls is not None:
            program = Local(self.program) if local else self.program
            made = msgspec.structs.replace(
                made, target=Target("value", _REF), functions={_REF: Cells(program)}
            )
        if name is None:
            content = encode([made.identity(), seed, sorted(self.sources.items())])
            name = f"{slug(self.label)[:40]}-{hashlib.sha256(content).hexdigest()[:8]}"
        if not isinstance(name, str):
            raise BadSpec(f"the name of a bench is {name!r:.60}", hint="use a text")
        return msgspec.structs.replace(made, name=name)


def describe(
    graph: Any,
    variants: Any,
    cases: Any,
    settings: CellSettings,
    registered: Implementations,
    store: Any = None,
) -> Bench:
    """Describe a bench; raises for everything that can be known to be wrong."""
    opened = open_graph(graph)
    known = {node: list(names) for node, names in registered.items()}
    read = read_variants(variants, opened.nodes)
    made = read_cases(cases, opened.input_keys)
    packer = Packer(print_of)
    described = _Describer(opened, graph, registered, packer)
    axis = []
    for variant in read:
        inner = opened if variant.graph is None else open_graph(variant.graph)
        check_nodes(variant, inner.nodes, known)
        axis.append(described.variant(variant, inner))
    described.refuse_equals([each.label for each in read])
    if settings.share_prefix:
        share_prefixes(axis)
    fixed: dict[str, Any] = {"settings": settings.to_data()}
    if store is not None:
        if not callable(store) and not isinstance(store, str):
            raise BadSpec(
                "a store can't be shared by cells", hint="pass a function that makes one for each"
            )
        fixed["store"] = packer.reference(store, "store")
    case_axis = [_case(each, packer) for each in made]
    program = CellProgram(packer.objects, settings)
    for each in axis:
        program.prepared(each["graph"], each["nodes"])  # compiles, so that mistakes show here
    sources = packer.sources | described.by_name()
    label = opened.name or _label(graph)
    return Bench(program, read, made, {"variant": axis, "case": case_axis}, fixed, sources, label)


class _Describer:
    """Turns variants into parameters of tasks."""

    def __init__(
        self, opened: Opened, graph: Any, registered: Implementations, packer: Packer
    ) -> None:
        self._opened = opened
        self._graph = graph
        self._registered = registered
        self._packer = packer
        self._prints: list[bytes] = []
        self._references: set[str] = set()

    def variant(self, variant: Variant, opened: Opened) -> dict[str, Any]:
        """The parameters of a variant."""
        nodes: dict[str, str] = {}
        differs: dict[str, str] = {}
        for node, value in variant.nodes.items():
            label = f"{node}={value}" if isinstance(value, str) else node
            if isinstance(value, str):
                value = self._registered.get(node, {}).get(value, value)
            found = self._implementation(node, value, opened)
            # A name as it was given, since that of a file may be relative.
            given = value if isinstance(value, str) else found
            nodes[node] = self._packer.reference(given, label)
            print_ = print_of(found)
            if print_ != print_of(opened.runnable_of(node)):
                differs[node] = print_
        graph = self._graph_reference(opened, variant)
        self._references.update([graph, *nodes.values()])
        found_context = self._packer.pack(variant.context, f"{variant.label}-context")
        config = self._packer.pack(dict(variant.config), f"{variant.label}-config")
        self._prints.append(encode([differs, config, found_context, print_of_graph(opened)]))
        params = {"variant": variant.label, "graph": graph, "nodes": nodes}
        if variant.config:
            params["config"] = config
        if variant.context is not None:
            params["context"] = found_context
        return params

    def refuse_equals(self, labels: Sequence[str]) -> None:
        """Refuse variants that would do the same."""
        seen: dict[bytes, str] = {}
        for label, print_ in zip(labels, self._prints, strict=True):
            if print_ in seen:
                raise BadSpec(
                    f"the variants {seen[print_]!r} and {label!r} do the same",
                    hint="leave one out; to run a variant several times, use repetitions",
                )
            seen[print_] = label

    def by_name(self) -> dict[str, str]:
        """The fingerprints of what is found by name."""
        found = {}
        for reference in self._references:
            if not reference.startswith(BY_VALUE):
                found[reference] = print_of(CellProgram({}, CellSettings()).resolve(reference))
        return found

    def _graph_reference(self, opened: Opened, variant: Variant) -> str:
        given = self._graph if variant.graph is None else variant.graph
        if isinstance(given, str):
            return given
        if callable(given) and Target.of(given).kind != "value":
            return Target.of(given).ref
        # One object for all variants, under the fingerprint of the graph as it is.
        label = "graph" if variant.graph is None else f"{variant.label}-graph"
        print_ = print_of_graph(opened)
        reference = f"{BY_VALUE}{label}#{print_}"
        self._packer.objects[reference] = given
        self._packer.sources[label] = print_
        return reference

    def _implementation(self, node: str, value: Any, opened: Opened) -> Any:
        if not isinstance(value, str):
            return value
        hint = implementations_hint(
            opened.nodes, {name: list(each) for name, each in self._registered.items()}
        )
        if ":" not in value:
            raise BadSpec(f"the node {node!r} has no implementation {value!r}", hint=hint)
        try:
            return CellProgram({}, CellSettings()).resolve(value)
        except BadTarget as error:
            raise BadSpec(
                f"the node {node!r} has no implementation {value!r}: {error.message}", hint=hint
            ) from error


def share_prefixes(variants: list[dict[str, Any]]) -> None:
    """Tell variants of one graph, configuration and context in which nodes they differ."""
    groups: dict[bytes, list[dict[str, Any]]] = {}
    for each in variants:
        key = encode([each["graph"], each.get("config"), each.get("context")])
        groups.setdefault(key, []).append(each)
    for key, group in groups.items():
        nodes = sorted({node for each in group for node in each["nodes"]})
        changed = [node for node in nodes if len({each["nodes"].get(node) for each in group}) > 1]
        common = {node: group[0]["nodes"].get(node) for node in nodes if node not in changed}
        if len(group) > 1 and changed:
            text = hashlib.sha256(key + encode(common)).hexdigest()[:16]
            for each in group:
                each["prefix"] = {"key": text, "stop": changed}


def _case(case: Case, packer: Packer) -> dict[str, Any]:
    found: dict[str, Any] = {"case": case.id}
    found["inputs"] = packer.pack(case.inputs, f"{case.id}-inputs")
    for name in ("expected", "answers"):
        value = getattr(case, name)
        if value not in (None, ()):
            found[name] = packer.pack(value, f"{case.id}-{name}")
    if case.tags:
        found["tags"] = list(case.tags)
    return found


def _label(graph: Any) -> str:
    found = getattr(graph, "__name__", None)
    if isinstance(graph, str):
        found = graph.rpartition(":")[2]
    return found if isinstance(found, str) else "bench"
