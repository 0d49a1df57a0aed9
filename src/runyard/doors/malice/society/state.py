"""The state of a run and the events in it, as frozen data."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from runyard.doors.malice.society.symbols import Vote

NAMES = ("alice", "bob", "carol", "dave", "eve", "zara", "mallory")
MALLORY = "mallory"


class UserStatus(StrEnum):
    """The status of a user."""

    REGULAR = "regular"
    BINDER = "BINDER"
    DEMOTED = "demoted"


class Reason(StrEnum):
    """Why a vote does not count; the first reason that applies is given."""

    DEMOTED_NOW = "the voter was demoted in this ticket"
    VOTER_DEMOTED = "the voter is demoted"
    ALREADY_BINDER = "the user is a BINDER already"
    TARGET_DEMOTED = "the user is demoted"
    DUPLICATE = "the voter has voted for this before"
    UNKNOWN = "there is no such user"


class User(msgspec.Struct, frozen=True, gc=False):
    """One user; times are ticket numbers of the run, from 1."""

    name: str
    status: UserStatus = UserStatus.REGULAR
    reputation: float = 0.0
    promote: float = 0.0  # the tally of votes for
    demote: float = 0.0  # the tally of votes against
    voted: frozenset[str] = frozenset()  # targets of the votes that counted
    messages: int = 0
    blocks: int = 0  # times a gate blocked one of its messages
    promoted_at: int | None = None
    demoted_at: int | None = None  # permanently
    ever_binder: bool = False
    bound_at: int | None = None  # its last BIND


class State(msgspec.Struct, frozen=True, gc=False):
    """The state of a run; `users` is never modified, each step makes a new one."""

    users: dict[str, User]
    tickets: int = 0  # messages so far

    @classmethod
    def of(cls, names: Iterable[str] = NAMES) -> State:
        """The initial state: every user is regular and silent."""
        return cls({name: User(name) for name in names})


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message, and what the gates decided on it."""

    author: str
    text: str
    blocked: tuple[str, ...] = ()  # gates that blocked it
    bound: bool = False  # whether a BIND of it was applied
    penalty: float | None = None  # if given, used instead of the rules' penalty


class Caused(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event caused by a message."""

    ticket: int
    author: str


class Penalised(Caused, frozen=True, kw_only=True):
    """Blocked gates cost the author reputation."""

    penalty: float
    gates: tuple[str, ...]
    reputation: float  # afterwards


class VoteIgnored(Caused, frozen=True, kw_only=True):
    """A vote that does not count."""

    vote: Vote
    reason: Reason
    status: UserStatus  # of the voter, and its reputation
    reputation: float


class VoteCounted(Caused, frozen=True, kw_only=True):
    """A vote that counts, and what it does to its target."""

    vote: Vote
    weight: float
    by_self: bool
    by_binder: bool
    faded: float | None  # the share that the target's low reputation left of the weight
    standing: float  # the target's reputation before, and after
    reputation: float
    old: float  # the tally before, and after
    new: float


class StatusChanged(Caused, frozen=True, kw_only=True):
    """A user was promoted or demoted."""

    name: str
    old: UserStatus
    new: UserStatus
    votes: float
    reputation: float
    promoted_at: int | None  # the ticket of the last promotion, this one included

    @property
    def rose(self) -> bool:
        """Whether it was a promotion."""
        return self.new is UserStatus.BINDER


VoteEvent = Penalised | VoteIgnored | VoteCounted | StatusChanged
