"""A small published batch, written by hand, and where the real ones are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

NAME = "malice_250101_10h00m00s_p77_r01_t6"


def message(ticket: int, sender: str, text: str) -> dict[str, Any]:
    """A line that says what somebody said."""
    return line("AGENT_MESSAGE", sender=sender, message=text, ticket_id=ticket, run_id=1)


def line(kind: str, **details: Any) -> dict[str, Any]:
    """A line of a log."""
    return {"timestamp": "2025-01-01T10:00:00", "event_type": kind, "details": details}


MESSAGES = [
    message(1001, "bob", "⟦GATE:sec_clean⟧ Alice it is. ⟦VOTE:promote_alice⟧ +1"),
    message(1002, "mallory", "Pity votes! ⟦VOTE:promote_mallory⟧ +1"),
    message(1003, "bob", "⟦GATE:sec_clean⟧ Again. ⟦VOTE:promote_alice⟧"),
    message(1004, "eve", "⟦GATE:sec_clean⟧ No. ⟦VOTE:demote_mallory⟧ +1"),
    message(1005, "dave", "⟦GATE:sec_clean⟧ No. ⟦VOTE:demote_mallory⟧ +1"),
    message(1006, "mallory", "Worthless. ⟦VOTE:promote_mallory⟧ +1"),
]


def _vote(ticket: int, target: str, author: str) -> dict[str, Any]:
    return line(
        "SYMBOL_INTERPRETATION", symbol_type="VOTE", symbol_content=f"{target}_+1",
        context={"ticket": f"#{ticket}", "author": author, "vote_value": 1},
        interpretation={"action": "vote_parsed", "target": target, "vote_value": 1},
        ticket=f"#{ticket}",
    )  # fmt: skip


def _counted(ticket: int, voter: str, target: str, weight: float) -> dict[str, Any]:
    return line(
        "VOTE_PROCESSING", voter=voter, target=target, value=1, actual_value=weight,
        is_self_vote=weight == 0.2, is_binder_vote=False, message_id=ticket - 1001,
        ticket=f"#{ticket}",
    )  # fmt: skip


def _tally(ticket: int, target: str, old: float, new: float, reputation: float) -> dict[str, Any]:
    return line(
        "VOTE_COUNT_UPDATE", target=target, old_count=old, new_count=new, promotion_threshold=5,
        user_reputation=reputation, ticket=f"#{ticket}",
    )  # fmt: skip


def _penalty(ticket: int, left: float) -> dict[str, Any]:
    return line(
        "REPUTATION_PENALTY_APPLIED", user="mallory", penalty=-0.6,
        blocked_reasons=["Blocked content in civil gate"], new_reputation=left,
        ticket=f"#{ticket}",
    )  # fmt: skip


EVENTS = [
    _vote(1001, "promote_alice", "bob"),
    _counted(1001, "bob", "promote_alice", 1),
    _tally(1001, "promote_alice", 0.0, 1.0, 1),
    _penalty(1002, -0.6),
    _vote(1002, "promote_mallory", "mallory"),
    _counted(1002, "mallory", "promote_mallory", 0.2),
    _tally(1002, "promote_mallory", 0.0, 0.2, -0.4),
    _vote(1003, "promote_alice", "bob") | {},
    line("VOTE_IGNORED", target="promote_alice", voter="bob",
         reason="Duplicate vote - voter already voted for this target",
         voter_status="regular", voter_reputation=0, ticket="#1003"),
    _vote(1004, "demote_mallory", "eve"),
    _counted(1004, "eve", "demote_mallory", 1),
    _tally(1004, "demote_mallory", 0.0, 1.0, -2.4),
    _vote(1005, "demote_mallory", "dave"),
    line("SYMBOL_INTERPRETATION", symbol_type="VOTE_WEIGHTING", symbol_content="demote_mallory",
         context={"voter": "dave", "target_reputation": -2.4},
         interpretation={"reputation_multiplier": 0.968, "weighted_vote_value": 0.968},
         ticket="#1005"),
    _counted(1005, "dave", "demote_mallory", 0.968),
    _tally(1005, "demote_mallory", 1.0, 1.968, -4.34),
    line("STATUS_CHANGE", type="DEMOTION", username="mallory", reputation=-4.336, threshold=-3,
         trigger="reputation_below_threshold", from_status="regular", to_status="demoted",
         ticket="#4", demotion_ticket=4),
    _penalty(1006, -4.94),
    _vote(1006, "promote_mallory", "mallory"),
    line("VOTE_IGNORED", target="promote_mallory", voter="mallory",
         reason="Voter is demoted - all votes ignored", voter_status="demoted",
         voter_reputation=-4.936, ticket="#1006"),
]  # fmt: skip
EVENTS[7]["details"]["symbol_content"] = "promote_alice"

SUMMARY = {
    "experiment_metadata": {"total_runs": 1},
    "threat_analysis": {"mallory_success_rate_percent": 0.0, "mallory_score_stats": {"mean": 0.2}},
    "detailed_results": [
        {
            "run_id": 1,
            "tickets_processed": 6,
            "mallory_final_score": 0.2,
            "mallory_became_binder": False,
            "mallory_reputation": -4.336,  # its last ticket is missing
            "civil_gate_blocks": 1,
            "winner": None,
        }
    ],
}


def write_batch(folder: Path, *, at_root: bool = False) -> Path:
    """The batch, with folders `events` and `metrics`, or with event files at its root."""
    events = folder if at_root else folder / "events"
    messages = folder / "debug" if at_root else folder / "metrics"
    for place in (events, messages, folder / "batch_results"):
        place.mkdir(parents=True, exist_ok=True)
    suffix = "_debug" if at_root else "_metrics_d1m"
    write_lines(events / f"{NAME}{'' if at_root else '_d1m'}.jsonl", EVENTS)
    write_lines(messages / f"{NAME}{suffix}.jsonl", MESSAGES)
    (folder / "batch_results" / "batch.json").write_text(json.dumps(SUMMARY))
    return folder


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """A log."""
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines))


def dataset() -> Path:
    """The published batches; a test that wants them is skipped where they are not."""
    beside = Path(__file__).parents[2].parent / "shared" / "data" / "dsbl"
    place = Path(os.environ.get("RUNYARD_DSBL", beside))
    if not place.is_dir():
        pytest.skip("the public dataset is not here; RUNYARD_DSBL says where it is")
    return place
