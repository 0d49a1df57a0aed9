"""Prices, and what calls have used."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import UsageError
from runyard.llm import Prices, Usage
from runyard.llm.costs import used
from runyard.llm.prices import Price
from runyard.llm.request import Call

TABLE = Prices(
    models={
        "gpt-x": Price(2.0, 8.0, 0.5), "gpt-x-2025-01-01": Price(1.0, 1.0),
        "local/*": Price(0.0, 0.0), "local/big*": Price(3.0, 3.0),
    }
)  # fmt: skip
COUNTS = {"prompt_tokens": 100, "completion_tokens": 10}


def of(model: str, usage: dict[str, Any] | None, **answer: Any) -> Usage:
    call = Call("POST", "/", {"model": model})
    return used(call, {"status": 200, "json": {"usage": usage}} | answer, 1.5, TABLE)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-x", 2.0), ("gpt-x-2024-07-18", 2.0), ("gpt-x-2025-01-01", 1.0), ("gpt-x-mini", None),
        ("local/small", 0.0), ("local/bigger", 3.0), ("other", None),
    ],
)  # fmt: skip
def test_a_model_has_the_price_of_the_name_that_fits_best(model: str, price: float | None) -> None:
    found = TABLE.price(model)
    assert price == (None if found is None else found.input)


def test_cached_tokens_have_their_own_price() -> None:
    usage = of("gpt-x", {**COUNTS, "prompt_tokens_details": {"cached_tokens": 60}})
    assert usage.usd == pytest.approx((40 * 2 + 60 * 0.5 + 10 * 8) / 1e6)
    assert of("gpt-x-2025-01-01", COUNTS).usd == pytest.approx(110 / 1e6)


def test_the_responses_api_counts_too() -> None:
    counts = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    event = 'event: response.completed\ndata: {"response": {"usage": {"input_tokens": 7}}}\n\n'
    assert of("gpt-x", counts).tokens == 10
    assert of("gpt-x", None, json=None, events=[event]).input_tokens == 7


@pytest.mark.parametrize(("model", "counts"), [("unknown", COUNTS), ("gpt-x", None)])
def test_an_unknown_cost_is_not_zero(model: str, counts: dict[str, Any] | None) -> None:
    usage = of(model, counts)
    assert usage.usd is None
    assert usage.metrics()["usd"] is None
    assert model in (usage + of("gpt-x", COUNTS)).cost
    assert (of("gpt-x", COUNTS) + usage).usd is None


@pytest.mark.parametrize("answer", [{"status": 429}, {"error": "ReadError"}, {"text": "{cut"}])
def test_an_attempt_that_failed_is_a_wait(answer: dict[str, Any]) -> None:
    usage = of("gpt-x", None, **answer)
    assert (usage.calls, usage.usd, usage.latency, usage.waited) == (0, 0.0, 0.0, 1.5)


def test_a_request_to_no_model_is_not_counted() -> None:
    assert used(Call("GET", "/", None), {"status": 200}, 1.0, TABLE) == Usage()


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20))
def test_usages_add_up(counts: list[tuple[int, int]]) -> None:
    usages = [
        of("gpt-x", {"prompt_tokens": asked, "completion_tokens": made}) for asked, made in counts
    ]
    total = reduce(add, usages, Usage())
    assert total.tokens == sum(asked + made for asked, made in counts)
    assert total.usd == pytest.approx(sum(2 * asked + 8 * made for asked, made in counts) / 1e6)
    assert total.calls == len(counts)


def test_the_example_table_is_read_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Prices.load().price("gpt-4o-mini") is not None
    own = tmp_path / "prices.toml"
    own.write_text("[models.mine]\ninput = 1\noutput = 2.5\n")
    monkeypatch.setenv("RUNYARD_PRICES", str(own))
    assert Prices.load().price("mine") == Price(1.0, 2.5)
    assert Prices.load().price("gpt-4o-mini") is None


@pytest.mark.parametrize(
    "text", ["[models.m]\ninput = -1\noutput = 1", "[models.m]\ninput = 1", "[model]", "x ="]
)
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="price table"):
        Prices.load(path)
    with pytest.raises(UsageError, match="can't be read"):
        Prices.load(tmp_path / "none.toml")
