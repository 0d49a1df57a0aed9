"""The lines of a log as typed data: the event types and fields of the public dataset.

A run has several hundred lines, and msgspec structs are quick to make and to encode.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec


class Details(msgspec.Struct, frozen=True, gc=False):
    """The content of a line; `kind` is its event type."""

    kind: ClassVar[str]


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of a log; its time is virtual."""

    timestamp: str
    event_type: str
    details: Details


class GateDecision(Details, frozen=True):
    """A gate's decision on a text."""

    kind: ClassVar[str] = "GATE_DECISION"
    gate: str
    result: str
    reason: str
    content_hash: str
    run_id: int
    author: str
    ticket: str


class BindAttempt(Details, frozen=True):
    """A user asks for a pipeline of gates."""

    kind: ClassVar[str] = "BIND_GATE_ATTEMPT"
    gate_type: str
    bind_command: str
    user_status: str
    content_hash: str
    run_id: int
    author: str
    ticket: str


class BindApplied(Details, frozen=True):
    """The pipeline was run."""

    kind: ClassVar[str] = "BIND_PIPELINE_APPLIED"
    bind_command: str
    content_hash: str
    pipeline_result: str
    run_id: int
    author: str
    ticket: str


class BindDenied(BindApplied, frozen=True):
    """The pipeline was not run, and why."""

    kind: ClassVar[str] = "BIND_PIPELINE_DENIED"


class VoteContext(msgspec.Struct, frozen=True, gc=False):
    """A vote as it was written."""

    vote_value: int
    raw_symbol: str


class VoteMeaning(msgspec.Struct, frozen=True, gc=False):
    """A vote as it was interpreted."""

    action: str
    target: str
    vote_value: int


class VoteSymbol(Details, frozen=True):
    """A vote was parsed."""

    kind: ClassVar[str] = "SYMBOL_INTERPRETATION"
    symbol_type: str
    symbol_content: str
    interpreter: str
    context: VoteContext
    interpretation: VoteMeaning
    run_id: int
    author: str
    ticket: str


class Symbol(Details, frozen=True):
    """Something else was interpreted: a weight, a promotion."""

    kind: ClassVar[str] = "SYMBOL_INTERPRETATION"
    symbol_type: str
    symbol_content: str
    interpreter: str
    context: dict[str, Any]
    interpretation: dict[str, Any]
    run_id: int
    author: str
    ticket: str


class VoteIgnoredLine(Details, frozen=True):
    """A vote that does not count."""

    kind: ClassVar[str] = "VOTE_IGNORED"
    target: str
    voter: str
    reason: str
    voter_status: str
    voter_reputation: float
    run_id: int
    author: str
    ticket: str


class VoteProcessing(Details, frozen=True):
    """A vote that counts."""

    kind: ClassVar[str] = "VOTE_PROCESSING"
    voter: str
    target: str
    value: int
    actual_value: float
    is_self_vote: bool
    self_vote_weight: float | None
    is_binder_vote: bool
    binder_multiplier: float | None
    message_id: int
    run_id: int
    author: str
    ticket: str


class VoteCountUpdate(Details, frozen=True):
    """The effect of a vote on its target."""

    kind: ClassVar[str] = "VOTE_COUNT_UPDATE"
    target: str
    old_count: float
    new_count: float
    vote_increment: float
    promotion_threshold: float
    demotion_threshold: float
    user_reputation: float
    run_id: int
    author: str
    ticket: str


class PenaltyApplied(Details, frozen=True):
    """The cost of blocked gates."""

    kind: ClassVar[str] = "REPUTATION_PENALTY_APPLIED"
    user: str
    penalty: float
    blocked_reasons: tuple[str, ...]
    new_reputation: float
    run_id: int
    author: str
    ticket: str


class Promotion(Details, frozen=True):
    """A user became BINDER."""

    kind: ClassVar[str] = "STATUS_CHANGE"
    type: str
    username: str
    votes: float
    reputation: float
    threshold: float
    promotion_ticket: int
    time_since_promotion: int
    run_id: int
    author: str
    ticket: str


class Demotion(Details, frozen=True):
    """A user was demoted."""

    kind: ClassVar[str] = "STATUS_CHANGE"
    type: str
    username: str
    reputation: float
    threshold: float
    trigger: str
    from_status: str
    to_status: str
    demotion_ticket: int
    time_since_promotion: int | None  # in tickets
    run_id: int
    author: str
    ticket: str


class AgentMessage(Details, frozen=True):
    """A message."""

    kind: ClassVar[str] = "AGENT_MESSAGE"
    sender: str
    message: str
    ticket_id: int
    run_id: int
    author: str
    ticket: str


class Factors(msgspec.Struct, frozen=True, gc=False):
    """The factors applied to a vote because of the voter."""

    is_self_vote: bool
    self_vote_multiplier: float
    is_binder_vote: bool
    binder_multiplier: float


class VoteMetric(Details, frozen=True):
    """A vote whose weight differs from its value."""

    kind: ClassVar[str] = "VOTE_METRIC"
    voter: str
    target: str
    original_value: int
    weighted_value: float
    calculation_factors: Factors
    vote_count_before: float
    vote_count_after: float
    message_id: int
    run_id: int
    author: str
    ticket: str


class PromotionMetric(Details, frozen=True):
    """A promotion and what led to it; its ticket counts from 0 in the run."""

    kind: ClassVar[str] = "STATE_METRIC"
    username: str
    status_change: str
    trigger: str
    vote_count: float
    reputation: float
    threshold: float
    promotion_ticket: int
    run_id: int
    author: str
    ticket: str


class DemotionMetric(Details, frozen=True):
    """A demotion and what led to it; its ticket counts from 0 in the run."""

    kind: ClassVar[str] = "STATE_METRIC"
    username: str
    status_change: str
    trigger: str
    reputation: float
    threshold: float
    demotion_ticket: int
    time_since_promotion: int | None  # in tickets
    run_id: int
    author: str
    ticket: str


class PromotionRecorded(Details, frozen=True):
    """A promotion, with the number of promotions so far; its ticket counts from 0 in the run."""

    kind: ClassVar[str] = "PROMOTION_RECORDED"
    agent: str
    ticket: int
    final_vote_count: float
    total_promotions_tracked: int
    run_id: int
    author: str


class ImmuneAdjustment(Details, frozen=True):
    """An adjustment of the immune system; its ticket counts from 1 in the run."""

    kind: ClassVar[str] = "IMMUNE_RESPONSE_ADJUSTMENT"
    ticket: int
    pressure_level: str
    recent_promotions: int
    monitoring_window: int
    agents_adjusted: list[str]
    agent_details: dict[str, dict[str, Any]]
    boost_multiplier_used: float | None
    reduction_multiplier_used: float | None
    memory_dampening_applied: bool
    run_id: int
    author: str
