"""Everything at once, for minutes: what is on record afterwards is what one process alone makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_run import full
from databases import postgres_url
from nemesis import NAME, Field

from runyard import Yard

SHORT, LONG = 45, 600
TASKS, REPLICATES = 200, 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "seconds"),
    [
        pytest.param("postgres", SHORT, marks=pytest.mark.timeout(600), id="postgres"),
        pytest.param("sqlite", SHORT, marks=pytest.mark.timeout(600), id="sqlite"),
        full("postgres", LONG),
    ],
)
def test_nothing_is_lost_doubled_or_left_running_whatever_happens(
    tmp_path: Path, store: str, seconds: int
) -> None:
    url = postgres_url() if store == "postgres" else str(tmp_path / "yard")
    field = Field(tmp_path / "field", url, TASKS, seed=seconds)
    try:
        field.torment(seconds, REPLICATES)
        field.finish()
        field.assert_nothing_runs()
    finally:
        field.close()
        print(dict(field.did))
    alone = Field(tmp_path / "alone", str(tmp_path / "alone" / "yard"), TASKS, seed=0)
    alone.command(*alone.batch, "--replicates", str(REPLICATES), "--backend", "serial")
    with Yard(url) as yard, Yard(alone.url) as expected:
        result, plain = yard.results(NAME), expected.results(NAME)
        assert list(yard.store.check()) == []
        assert [one.task for one in result.outcomes()] == list(range(TASKS * REPLICATES))
        assert result.stats.completed == plain.stats.completed
        assert result.stats.failed == plain.stats.failed
        assert result.digest == plain.digest
        with yard.store.snapshot() as view:
            assert view.claims(yard.recorded(NAME).id) == []
