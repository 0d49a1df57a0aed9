"""What the names in a condition mean: sides that are compared, metrics, or nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from runyard.errors import UsageError
from runyard.stats import conditions_terms as terms
from runyard.stats.conditions_tree import Node, Operation

SHOWN = 20
"""The most names that a hint lists."""


@dataclass(frozen=True)
class Scope:
    """The names that exist where a condition is judged."""

    labels: Collection[str] = ()  # of the sides
    metrics: Collection[str] | None = None  # None: unknown, so any name may be one
    pairs: Collection[tuple[str, str]] = ()  # the sides that are compared with one another
    compared: str | None = None  # the metric they are compared on

    def resolve(self, node: Node) -> Node:
        """A part of a condition with its names resolved; refuses names that mean nothing."""
        if isinstance(node, terms.Bare):
            return self._bare(node.name)
        if isinstance(node, terms.Share) and node.label is not None:
            return self._share(node.status, node.label)
        if isinstance(node, terms.Statistic):
            self._check_metric(node.metric)
            if node.label is not None:
                self._check_label(node.label)
        elif isinstance(node, terms.Difference):
            self._check_pair(node.first, node.second)
        elif isinstance(node, Operation) and node.sign == "-":
            bare = [part for part in node.parts if isinstance(part, terms.Bare)]
            sides = [part.name for part in bare if part.meaning == "side"]
            if len(sides) == 2 and self._is_pair(sides[0], sides[1]):
                return terms.Difference("effect", sides[0], sides[1])
        return node

    def _bare(self, name: str) -> terms.Known:
        """A name by itself: a side's mean, a metric's mean, or the p value of a comparison."""
        if name in self.labels and self.compared is not None:
            return terms.Bare(name, "side")
        is_metric = self.metrics is not None and name in self.metrics
        if name == "p" and self.pairs:
            if is_metric:
                problem = "'p' is both a metric and the p value of a comparison"
                raise UsageError(problem, hint="write mean(p), or p(new - old)")
            return terms.Bare("p", "p")
        if (split := self._split(name)) is not None:
            label, metric = split
            if is_metric and self._may_be_metric(metric):
                problem = (
                    f"{name!r} is ambiguous: it is a metric, and {label!r} has a metric {metric!r}"
                )
                raise UsageError(problem, hint=f"write mean({name}), or {label}.mean({metric})")
            if not is_metric:
                self._check_metric(metric)
                return terms.Statistic("mean", metric, label=label)
        if self._may_be_metric(name):
            return terms.Bare(name)
        if name == "p":
            self._check_compared("p")
        if name in self.labels:
            problem = f"{name!r} means its mean, but nothing is compared on a metric"
            raise UsageError(problem, hint=f"add --metric, or write {name}.mean(metric)")
        raise self._unknown(name, "neither a metric nor a side of the comparison", self.labels)

    def _share(self, status: str, label: str) -> terms.Known:
        """`label.status`: the share of a side's tasks, or the metric of that path."""
        path = f"{label}.{status}"
        if label in self.labels:
            if self.metrics is not None and path in self.metrics:
                problem = f"{path!r} is both a metric and a share of the tasks of {label!r}"
                raise UsageError(problem, hint=f"for the metric, write mean({path})")
            return terms.Share(status, label)
        if self._may_be_metric(path) and not (self.metrics is None and self.labels):
            return terms.Bare(path)
        raise self._unknown(label, "not a side of the comparison", self.labels, metrics=False)

    def _check_metric(self, name: str) -> None:
        if not self._may_be_metric(name):
            raise self._unknown(name, "not a metric")

    def _check_label(self, label: str) -> None:
        if label not in self.labels:
            raise self._unknown(label, "not a side of the comparison", self.labels, metrics=False)

    def _is_pair(self, first: str, second: str) -> bool:
        return (first, second) in self.pairs or (second, first) in self.pairs

    def _check_pair(self, first: str, second: str) -> None:
        """Refuse the difference of two sides that are not compared."""
        self._check_compared(f"{terms.quoted(first)} - {terms.quoted(second)}")
        self._check_label(first)
        self._check_label(second)
        if not self._is_pair(first, second):
            there = ", ".join(" - ".join(map(terms.quoted, pair)) for pair in list(self.pairs)[:9])
            raise UsageError(
                f"{first!r} is not compared with {second!r}", hint=f"these are compared: {there}"
            )

    def _check_compared(self, text: str) -> None:
        if not self.pairs:
            more = "" if len(self.labels) > 1 else "name two batches or add --by, and "
            problem = f"{text!r} needs a comparison, and nothing is compared on a metric"
            raise UsageError(problem, hint=f"{more}add --metric")

    def _may_be_metric(self, name: str) -> bool:
        return self.metrics is None or name in self.metrics

    def _split(self, name: str) -> tuple[str, str] | None:
        """A dotted name as the longest side that it begins with, and the rest."""
        dots = [at for at, character in enumerate(name) if character == "."]
        for at in reversed(dots):
            if name[:at] in self.labels:
                return name[:at], name[at + 1 :]
        return None

    def _unknown(
        self, name: str, problem: str, labels: Collection[str] = (), metrics: bool = True
    ) -> UsageError:
        known = list(self.metrics or ()) if metrics else []
        names = [*labels, *known]
        lowered = {each.lower(): each for each in reversed(names)}
        close = [lowered[each] for each in get_close_matches(name.lower(), lowered, n=3)]
        hints = []
        if close:
            hints.append(f"did you mean {' or '.join(map(terms.quoted, close))}?")
        if labels:
            hints.append(f"the sides are: {_listed(labels)};")
        if metrics:
            there = _listed(known) if known else "none: the tasks return no number"
            hints.append(f"the metrics are: {there}")
        if not self.pairs:
            hints.append("(to compare sides, add --by and --metric, or a second batch)")
        return UsageError(
            f"{name!r} in the condition is {problem}", hint=" ".join(hints).rstrip(";")
        )


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(map(terms.quoted, list(names)[:SHOWN]))
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
