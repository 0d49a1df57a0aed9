"""Variants, cases and settings as data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.workbench.describe.cases import Case, read_cases
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.describe.variants import Variant, read_variant, read_variants
from runyard.errors import BadSpec

NODES = ["retrieve", "answer"]


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({}, "baseline"),
        ({"answer": "A"}, "answer=A"),
        ({"answer": "A", "retrieve": "B"}, "answer=A,retrieve=B"),
        ({"answer": len}, "answer=len"),
        ({"config": {"configurable": {"k": 3}}}, "k=3"),
        ({"context": {"tone": "kind"}}, "tone=kind"),
        ({"answer": "A", "name": "mine"}, "mine"),
        ({"nodes": {"answer": "A"}, "name": "mine"}, "mine"),
        ({"graph": "module:build"}, "graph=module:build"),
    ],
)
def test_variants_are_named_by_what_they_change(given: Any, label: str) -> None:
    assert read_variant(given, NODES).label == label


@pytest.mark.parametrize(
    "given", [3, [("answer", "A")], {1: "A"}, {"answer": "A", "config": 3}, {"name": ""}]
)
def test_what_is_no_variant_is_refused(given: Any) -> None:
    with pytest.raises(BadSpec):
        read_variant(given, NODES)


def test_no_variants_are_the_baseline_alone() -> None:
    assert read_variants(None, NODES) == [Variant()]
    with pytest.raises(BadSpec, match="no variants"):
        read_variants([], NODES)


@given(st.lists(st.dictionaries(st.just("query"), st.text(), min_size=1), min_size=1, max_size=5))
def test_unnamed_cases_are_numbered(inputs: list[dict[str, str]]) -> None:
    cases = read_cases(inputs, ["query"])
    assert [case.id for case in cases] == [f"case-{n}" for n in range(len(inputs))]
    assert [case.inputs for case in cases] == inputs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"query": "q"}, "not a list"),
        ([], "no test cases"),
        ([{}], "is empty"),
        ([{"quer": "q"}], "did you mean 'query'"),
        ([{"inputs": {"query": "q"}, "expect": 1}], "did you mean 'expected'"),
        ([Case({"query": "q"}, id="a"), Case({"query": "r"}, id="a")], "two cases have the id 'a'"),
        ([Case({"query": "q"}, answers="yes")], "give a list"),
        ("nowhere.csv", "there is no file of cases"),
    ],
)
def test_what_is_no_list_of_cases_is_refused(given: Any, said: str) -> None:
    with pytest.raises(BadSpec, match=said):
        read_cases(given, ["query"])


@pytest.mark.parametrize(
    "given",
    [{"checkpoints": "on"}, {"breakpoints": True}, {"cache": None}, {"strict": "no"},
     {"recursion_limit": 0}, {"share_prefix": "always"}],
)  # fmt: skip
def test_unknown_settings_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadSpec):
        CellSettings(**given)


def test_settings_survive_their_record() -> None:
    found = CellSettings(checkpoints="off", share_prefix="across-repetitions")
    assert found.to_data() == {"checkpoints": "off", "share_prefix": "across-repetitions"}
    assert CellSettings(**found.to_data()) == found
