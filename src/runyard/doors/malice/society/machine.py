"""The rules as a pure state machine: (state, message) ──▶ (state, events).

No clock, no randomness, no output. A ticket has these effects, in this order: blocked gates cost
reputation, the author may be demoted, and then each vote of the message is ignored, or weighed and
counted, which may promote or demote its target.
"""

from __future__ import annotations

from msgspec.structs import replace

from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import (
    Message,
    Penalised,
    Reason,
    State,
    StatusChanged,
    User,
    UserStatus,
    VoteCounted,
    VoteEvent,
    VoteIgnored,
)
from runyard.doors.malice.society.symbols import PROMOTE, Vote, read_symbols
from runyard.errors import UsageError

Users = dict[str, User]


class SocialVoteSystem:
    """The vote; a subclass may replace `refusal`, `weight`, `next_status` or `status_left`."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()

    def step(self, state: State, message: Message) -> tuple[State, list[VoteEvent]]:
        """The state after a message, and the events that it causes."""
        author = state.users.get(message.author)
        if author is None:
            raise UsageError(
                f"{message.author!r} is not a user of this run",
                hint=f"the users are: {', '.join(state.users)}",
            )
        users, ticket = state.users.copy(), state.tickets + 1
        events: list[VoteEvent] = []
        speaker = replace(
            author,
            messages=author.messages + 1,
            bound_at=ticket if message.bound else author.bound_at,
        )
        if message.blocked:
            speaker = self._penalised(speaker, message, ticket, events)
        status = self.status_left(speaker)
        self._settle(users, speaker, status, author.name, ticket, events)
        fell = status is UserStatus.DEMOTED and author.status is not UserStatus.DEMOTED
        for vote in read_symbols(message.text).votes:
            self._vote(users, author.name, vote, fell, ticket, events)
        return State(users, ticket), events

    def refusal(self, voter: User, target: User, vote: Vote, fell: bool) -> Reason | None:
        """Why a vote does not count; None if it does."""
        if fell:
            return Reason.DEMOTED_NOW
        if voter.status is UserStatus.DEMOTED:
            return Reason.VOTER_DEMOTED
        if vote.kind == PROMOTE and target.status is UserStatus.BINDER:
            return Reason.ALREADY_BINDER
        if vote.kind == PROMOTE and target.status is UserStatus.DEMOTED:
            return Reason.TARGET_DEMOTED
        return Reason.DUPLICATE if vote.target in voter.voted else None

    def weight(self, voter: User, target: User, vote: Vote) -> tuple[float, float | None]:
        """The weight of a vote, and the share left by a low reputation of its target."""
        rules = self.rules
        weight: float = -1 if vote.value < 0 else 1
        if voter.name == target.name:
            weight *= rules.self_weight
        elif voter.status is UserStatus.BINDER:
            weight *= rules.binder_weight
        if target.reputation >= rules.fading_below:
            return weight, None
        left = 1 + (target.reputation - rules.fading_below) * rules.fading
        faded = max(rules.fading_floor, left)
        return weight * faded, faded

    def next_status(self, user: User) -> UserStatus:
        """A user's status after a vote for or against it."""
        if user.status is UserStatus.REGULAR and user.promote >= self.rules.promote_at:
            return UserStatus.BINDER
        return self.status_left(user)

    def status_left(self, user: User) -> UserStatus:
        """The status that a user's reputation permits; it never promotes."""
        if user.reputation > self.rules.demote_at:
            return user.status
        return UserStatus.REGULAR if user.status is UserStatus.BINDER else UserStatus.DEMOTED

    def _penalised(
        self, author: User, message: Message, ticket: int, events: list[VoteEvent]
    ) -> User:
        penalty = message.penalty
        if penalty is None:
            penalty = -self.rules.penalty * len(message.blocked)
        author = replace(
            author,
            reputation=author.reputation + penalty,
            blocks=author.blocks + len(message.blocked),
        )
        events.append(
            Penalised(
                ticket=ticket, author=author.name, penalty=penalty, gates=message.blocked,
                reputation=author.reputation,
            )
        )  # fmt: skip
        return author

    def _vote(
        self, users: Users, name: str, vote: Vote, fell: bool, ticket: int, events: list[VoteEvent]
    ) -> None:
        voter, target = users[name], users.get(vote.name)
        if target is None:
            events.append(_ignored(voter, vote, Reason.UNKNOWN, ticket))
            return
        reason = self.refusal(voter, target, vote, fell)
        if reason is not None:
            events.append(_ignored(voter, vote, reason, ticket))
            return
        by_self = target.name == name
        weight, faded = self.weight(voter, target, vote)
        voted = voter.voted | {vote.target}
        if by_self:
            target = replace(target, voted=voted)
        else:
            users[name] = replace(voter, voted=voted)
        standing = target.reputation
        if vote.kind == PROMOTE:
            old, new = target.promote, target.promote + weight
            target = replace(target, promote=new, reputation=standing + weight)
        else:
            old, new = target.demote, target.demote + weight
            cost = self.rules.demote_cost * weight
            target = replace(target, demote=new, reputation=standing - cost)
        events.append(
            VoteCounted(
                ticket=ticket, author=name, vote=vote, weight=weight, by_self=by_self,
                by_binder=voter.status is UserStatus.BINDER and not by_self, faded=faded,
                standing=standing, reputation=target.reputation, old=old, new=new,
            )
        )  # fmt: skip
        self._settle(users, target, self.next_status(target), name, ticket, events)

    def _settle(
        self,
        users: Users,
        user: User,
        status: UserStatus,
        author: str,
        ticket: int,
        events: list[VoteEvent],
    ) -> None:
        """Store a changed user, with its new status."""
        if status is not user.status:
            old, rose = user.status, status is UserStatus.BINDER
            user = replace(
                user,
                status=status,
                promoted_at=ticket if rose else user.promoted_at,
                demoted_at=ticket if status is UserStatus.DEMOTED else None,
                ever_binder=user.ever_binder or rose,
            )
            events.append(
                StatusChanged(
                    ticket=ticket, author=author, name=user.name, old=old, new=status,
                    votes=user.promote, reputation=user.reputation, promoted_at=user.promoted_at,
                )
            )  # fmt: skip
        users[user.name] = user


def _ignored(voter: User, vote: Vote, reason: Reason, ticket: int) -> VoteIgnored:
    return VoteIgnored(
        ticket=ticket, author=voter.name, vote=vote, reason=reason, status=voter.status,
        reputation=voter.reputation,
    )  # fmt: skip
