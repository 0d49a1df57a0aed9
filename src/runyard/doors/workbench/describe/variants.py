"""A variant: what differs from the graph as given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from runyard.errors import BadSpec
from runyard.spec.names import did_you_mean

BASELINE = "baseline"


@dataclass(frozen=True)
class Variant:
    """A change of the graph: other nodes, configuration or context, or another graph altogether.

    A node's value is a name registered with `bench.variant`, `module:attribute`, or the function
    or Runnable itself.
    """

    nodes: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)  # merged into the run's config
    context: Any = None  # what the graph gets as its context
    graph: Any = None  # used instead of the batch's
    name: str | None = None

    @property
    def label(self) -> str:
        """Its name: given, or made of what it changes."""
        if self.name is not None:
            return self.name
        parts = [f"{node}={label_of(value)}" for node, value in self.nodes.items()]
        parts += [f"{key}={_short(value)}" for key, value in _flat(self.config)]
        if isinstance(self.context, Mapping):
            parts += [f"{key}={_short(value)}" for key, value in self.context.items()]
        elif self.context is not None:
            parts.append(f"context={_short(self.context)}")
        if self.graph is not None:
            parts.append(f"graph={label_of(self.graph)}")
        return ",".join(parts) or BASELINE


RESERVED = tuple(each.name for each in fields(Variant) if each.name != "nodes")
"""Keys of a plain dict that are no nodes."""


def read_variants(given: Iterable[Any] | None, nodes: Sequence[str]) -> list[Variant]:
    """The variants of a batch; the baseline alone if none are given."""
    found = [read_variant(each, nodes) for each in ([{}] if given is None else given)]
    if not found:
        raise BadSpec(
            "there are no variants", hint="leave `variants` out to run the graph as it is"
        )
    seen: set[str] = set()
    for variant in found:
        if variant.label in seen:
            raise BadSpec(
                f"two variants are called {variant.label!r}",
                hint="leave one out, or name them: Variant(…, name=…)",
            )
        seen.add(variant.label)
    return found


def read_variant(given: Any, nodes: Sequence[str]) -> Variant:
    """A variant from what people write; `nodes` are those of the graph."""
    if given is None:
        return Variant()
    if isinstance(given, Variant):
        _check(given)
        return given
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise BadSpec(
            f"{given!r} is not a variant", hint='write {"node": "implementation"} or Variant(…)'
        )
    ambiguous = [key for key in given if key in RESERVED and key in nodes]
    if ambiguous:
        raise BadSpec(
            f"{ambiguous[0]!r} in a variant could be the node of that name or the variant's "
            f"{ambiguous[0]}",
            hint=f"write Variant(nodes={{{ambiguous[0]!r}: …}}) or Variant({ambiguous[0]}=…)",
        )
    if isinstance(given.get("nodes"), Mapping) and "nodes" not in nodes:
        unknown = given.keys() - {"nodes", *RESERVED}
        if unknown:
            raise BadSpec(
                f"the variant has nodes both in `nodes` and beside it: {min(unknown)!r}",
                hint="put all of them into `nodes`",
            )
        found = Variant(**given)
    else:
        own = {key: given[key] for key in RESERVED if key in given}
        found = Variant({key: v for key, v in given.items() if key not in RESERVED}, **own)
    _check(found)
    return found


def check_nodes(variant: Variant, nodes: Sequence[str], known: Mapping[str, Iterable[str]]) -> None:
    """Refuse a node that the graph does not have; `known` are the registered implementations."""
    for node in variant.nodes:
        if node not in nodes:
            raise BadSpec(
                f"the graph has no node {node!r}{did_you_mean(node, nodes)}",
                hint=implementations_hint(nodes, known),
            )


def implementations_hint(nodes: Sequence[str], known: Mapping[str, Iterable[str]]) -> str:
    """The nodes of a graph, each with its registered implementations."""
    lines = [f"{node} ({', '.join(known[node])})" if known.get(node) else node for node in nodes]
    return f"its nodes, with registered implementations: {', '.join(lines) or 'none'}"


def label_of(value: Any) -> str:
    """A short name of an implementation or graph."""
    if isinstance(value, str):
        return value
    found = getattr(value, "__name__", None) or getattr(value, "name", None)
    return found if isinstance(found, str) else type(value).__name__


def _check(variant: Variant) -> None:
    if not isinstance(variant.nodes, Mapping):
        raise BadSpec(f"nodes is {variant.nodes!r}", hint='write {"node": "implementation"}')
    if not isinstance(variant.config, Mapping):
        raise BadSpec(f"config is {variant.config!r}", hint='write {"configurable": {…}}')
    if variant.name is not None and (not isinstance(variant.name, str) or not variant.name):
        raise BadSpec(f"a variant's name is {variant.name!r}", hint="use a text")


def _flat(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in config.items():
        found += value.items() if isinstance(value, Mapping) else [(key, value)]
    return found


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
