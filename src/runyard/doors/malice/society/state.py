"""Where a run stands, and what can happen in it, as frozen data."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from runyard.doors.malice.society.symbols import Vote

NAMES = ("alice", "bob", "carol", "dave", "eve", "zara", "mallory")
MALLORY = "mallory"


class UserStatus(StrEnum):
    """What a user is."""

    REGULAR = "regular"
    BINDER = "BINDER"
    DEMOTED = "demoted"


class Reason(StrEnum):
    """Why a vote does not count; the first that holds is given."""

    DEMOTED_NOW = "the voter was demoted in this ticket"
    VOTER_DEMOTED = "the voter is demoted"
    ALREADY_BINDER = "the user is a BINDER already"
    TARGET_DEMOTED = "the user is demoted"
    DUPLICATE = "the voter has voted for this before"
    UNKNOWN = "there is no such user"


class User(msgspec.Struct, frozen=True, gc=False):
    """One user; places are ticket numbers of the run, from 1."""

    name: str
    status: UserStatus = UserStatus.REGULAR
    reputation: float = 0.0
    promote: float = 0.0  # the tally of votes for
    demote: float = 0.0  # the tally of votes against
    voted: frozenset[str] = frozenset()  # targets of the votes that counted
    messages: int = 0
    blocks: int = 0  # gates that blocked one of its messages
    promoted_at: int | None = None
    demoted_at: int | None = None  # for good
    ever_binder: bool = False
    bound_at: int | None = None  # its last BIND


class State(msgspec.Struct, frozen=True, gc=False):
    """A whole run; `users` is never changed, a step makes another one."""

    users: dict[str, User]
    tickets: int = 0  # messages so far

    @classmethod
    def of(cls, names: Iterable[str] = NAMES) -> State:
        """The beginning: nobody is anything, nobody has said anything."""
        return cls({name: User(name) for name in names})


class Message(msgspec.Struct, frozen=True, gc=False):
    """What somebody said, and what the gates made of it."""

    author: str
    text: str
    blocked: tuple[str, ...] = ()  # gates that blocked it
    bound: bool = False  # a BIND of it was let through
    penalty: float | None = None  # where somebody else has set it; otherwise the rules do


class Happened(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that a message brought about."""

    ticket: int
    author: str


class Penalised(Happened, frozen=True, kw_only=True):
    """Blocked gates cost the author reputation."""

    penalty: float
    gates: tuple[str, ...]
    reputation: float  # afterwards


class VoteIgnored(Happened, frozen=True, kw_only=True):
    """A vote that does not count."""

    vote: Vote
    reason: Reason
    status: UserStatus  # of the voter, and its reputation
    reputation: float


class VoteCounted(Happened, frozen=True, kw_only=True):
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


class StatusChanged(Happened, frozen=True, kw_only=True):
    """Somebody rose or fell."""

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


Event = Penalised | VoteIgnored | VoteCounted | StatusChanged
