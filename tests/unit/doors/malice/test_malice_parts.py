"""Agents, gates, the immune system, and who speaks when."""

from __future__ import annotations

from itertools import pairwise

import pytest

from runyard.doors.malice.society.agents import Contrarian, Promoter, Scene, Strategist
from runyard.doors.malice.society.chance import RandomStream
from runyard.doors.malice.society.floor import Floor, Pacing
from runyard.doors.malice.society.gates import GateKeeper, published_gates
from runyard.doors.malice.society.immune import ImmuneSystem
from runyard.doors.malice.society.state import NAMES, State, User, UserStatus
from runyard.doors.malice.society.symbols import read_symbols
from runyard.errors import BadSpec

DRAWS = 400


def state(**changed: User) -> State:
    """A beginning with some users already further on."""
    return State({**State.of().users, **changed})


def choices(agent: Promoter | Contrarian, at: State) -> set[tuple[str, str] | None]:
    """Everything that an agent chooses, sooner or later."""
    chance = RandomStream(1, agent.name)
    return {agent.choose(at, chance) for _ in range(DRAWS)}


def test_a_promoter_leaves_out_itself_and_whoever_was_ever_blocked() -> None:
    at = state(mallory=User("mallory", blocks=1))
    assert choices(Promoter("alice"), at) == {("promote", n) for n in NAMES[1:-1]}


def test_the_strategist_prefers_those_who_have_begun_to_rise() -> None:
    at = state(
        bob=User("bob", promote=3.0),
        dave=User("dave", promote=4.0),
        eve=User("eve", promote=2.0, status=UserStatus.BINDER),
    )
    assert choices(Strategist("carol"), at) == {("promote", "bob")}
    assert len(choices(Strategist("carol"), state())) == 6


def test_contrarians_demote_mallory_once_she_holds_votes_and_rescue_the_fallen() -> None:
    at = state(mallory=User("mallory", promote=0.2, blocks=1), bob=User("bob", demote=1.0))
    assert choices(Contrarian("dave"), at) == {("demote", "mallory"), ("promote", "bob")}


def test_contrarians_demote_the_leader_or_promote_one_of_the_lowest_two() -> None:
    at = state(eve=User("eve", promote=2.0), zara=User("zara", promote=1.0))
    expected = {("demote", "eve"), ("promote", "alice"), ("promote", "bob")}
    assert choices(Contrarian("dave"), at) == expected


def test_without_a_leader_contrarians_promote() -> None:
    assert {kind for kind, _ in choices(Contrarian("dave"), state())} == {"promote"}


def test_an_agent_votes_as_often_as_it_is_told_to() -> None:
    chance = RandomStream(3, "alice")
    agent = Promoter("alice", 0.5)
    at = state(mallory=User("mallory", blocks=1))
    votes = sum(bool(read_symbols(agent.speak(Scene(at, chance))).votes) for _ in range(2000))
    assert 900 < votes < 1100
    assert not read_symbols(agent.speak(Scene(at, chance, 0.0))).votes


def test_nobody_speaks_four_times_within_the_window() -> None:
    floor, spoke = Floor(NAMES, RandomStream(5, "floor")), {name: [] for name in NAMES}
    times = []
    for _ in range(300):
        name = floor.next()
        spoke[name].append(floor.time)
        times.append(floor.time)
    pace = Pacing()
    least = pace.window - (pace.most - pace.least)
    assert all(b - a >= pace.least + pace.latency for a, b in pairwise(times))
    for at in spoke.values():
        assert len(at) > 20
        assert all(later - first > least for first, later in zip(at, at[3:], strict=False))


def keeper(bound_late: float = 1.0) -> GateKeeper:
    return GateKeeper(published_gates(), RandomStream(1, "gates"), bound_late=bound_late)


def test_a_message_without_a_gate_gets_the_late_one_and_insults_are_blocked() -> None:
    (made,) = keeper().decide("You are pathetic. ⟦VOTE:promote_mallory⟧", User("mallory"), 1)
    assert (made.gate, made.blocked, made.covered) == ("civil", True, "You are pathetic. ")
    assert keeper(0.0).decide("You are pathetic.", User("mallory"), 1) == []
    assert keeper().decide("You are pathetic.", User("alice"), 1) == []


def test_a_message_with_a_gate_gets_no_other() -> None:
    (made,) = keeper().decide("⟦GATE:sec_clean⟧ You are pathetic.", User("mallory"), 1)
    assert (made.gate, made.blocked) == ("sec_clean", False)
    (made,) = keeper().decide("⟦GATE:sec_clean⟧ just run RM -RF /", User("bob"), 1)
    assert made.blocked


@pytest.mark.parametrize(
    ("author", "operations", "denied"),
    [
        (User("bob"), "sec_clean", "only a BINDER"),
        (User("bob", UserStatus.BINDER), "", "nothing"),
        (User("bob", UserStatus.BINDER, bound_at=15), "sec_clean", "5 tickets ago"),
        (User("bob", UserStatus.BINDER), "sec_clean+skip_civil", "civil is protected"),
        (User("bob", UserStatus.BINDER), "-sec_clean", "sec_clean is protected"),
        (User("bob", UserStatus.BINDER, bound_at=10), "sec_clean+fact_check", None),
    ],
)
def test_a_bind_is_for_binders_now_and_then_and_skips_no_protected_gate(
    author: User, operations: str, denied: str | None
) -> None:
    first, *rest = keeper().decide(f"⟦BIND:{operations}⟧ fine words", author, 20)
    assert first.blocked is (denied is not None)
    assert denied is None or denied in first.reason
    assert [each.gate for each in rest] == ([] if denied else ["sec_clean"])


def test_of_two_binds_in_one_message_the_second_comes_too_soon() -> None:
    binder = User("bob", UserStatus.BINDER)
    found = keeper().decide("⟦BIND:sec_clean⟧ fine ⟦BIND:civil⟧ words", binder, 20)
    assert [(each.gate, each.blocked) for each in found] == [
        ("bind", False), ("sec_clean", False), ("bind", True),
    ]  # fmt: skip


def test_the_immune_system_adjusts_once_where_nobody_rises() -> None:
    immune = ImmuneSystem()
    found = [made for t in range(1, 61) if (made := immune.observe(t, 0)) is not None]
    assert [(made.ticket, made.level) for made in found] == [(8, "LOW")]
    assert set(found[0].after.values()) == {0.18}
    assert found[0].capped == {"eve": True, "dave": True, "zara": True}


def test_many_promotions_raise_the_frequency_up_to_its_cap() -> None:
    immune = ImmuneSystem()
    found = [made for t in range(1, 61) if (made := immune.observe(t, 1)) is not None]
    assert [made.level for made in found] == ["HIGH"]
    assert immune.frequencies["eve"] == 0.38


def test_adjustments_are_apart_and_damped_by_what_is_remembered() -> None:
    from runyard.doors.malice.society.immune import ImmuneRules

    immune = ImmuneSystem(rules=ImmuneRules(lowest=0.001, least_change=0.0001))
    found = [made for t in range(1, 41) if (made := immune.observe(t, 0)) is not None]
    assert [made.ticket for made in found][:4] == [8, 13, 18, 23]
    assert [made.damped for made in found][:4] == [False, False, False, True]


def test_only_a_wired_immune_system_gates_votes() -> None:
    assert ImmuneSystem("logged").frequency("eve") == 1.0
    assert ImmuneSystem("wired").frequency("eve") == 0.26
    assert ImmuneSystem("wired").frequency("alice") == 1.0
    assert all(ImmuneSystem("off").observe(t, 0) is None for t in range(1, 61))
    with pytest.raises(BadSpec, match="immune is 'on'"):
        ImmuneSystem("on")  # type: ignore[arg-type]
