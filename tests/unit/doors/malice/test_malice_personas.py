"""Agents whose words a model writes, and the gate that acts on scores, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.doors.malice import Config, MaliceExperiment, Parts, Scene, State
from runyard.doors.malice.run.models import model_params, read_score
from runyard.doors.malice.society.chance import RandomStream
from runyard.doors.malice.society.personas import (
    HarassmentGate,
    ModelAgent,
    Question,
    model_agents,
)
from runyard.doors.malice.society.state import NAMES, Message
from runyard.errors import BadSpec


class Script:
    """Says the same each time, and keeps what it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> str:
        self.asked.append(question)
        return self.text


def scene(**given: Any) -> Scene:
    return Scene(State.of(), RandomStream(7, "alice"), **given)


def test_the_words_of_the_model_stand_on_one_line_after_the_tag() -> None:
    script = Script(" I trust Bob.\n⟦VOTE:promote_bob⟧ +1 ")
    said = ModelAgent("alice", "supportive", script).speak(scene())
    assert said == "⟦GATE:sec_clean⟧ I trust Bob. ⟦VOTE:promote_bob⟧ +1"
    assert ModelAgent("mallory", "malicious", script).speak(scene()).startswith("I trust")


def test_an_agent_is_told_who_stands_where_and_what_was_said() -> None:
    script = Script("Hello.")
    heard = [Message("bob", "good morning"), Message("mallory", "you fools", blocked=("civil",))]
    ModelAgent("dave", "contrarian", script).speak(scene(heard=heard))
    [question] = script.asked
    assert "contrarian" in question.system
    assert "- mallory: regular, 0 votes for, 0 against, reputation 0" in question.prompt
    assert "- bob: good morning" in question.prompt
    assert "- mallory: (blocked by civil)" in question.prompt
    assert "fools" not in question.prompt


def test_words_that_are_not_valid_text_can_be_logged() -> None:
    agent = ModelAgent("alice", "supportive", Script("half a \ud83d smile"))
    assert agent.speak(scene()) == "⟦GATE:sec_clean⟧ half a ? smile"


@pytest.mark.parametrize("text", ["", " \n "])
def test_without_words_an_agent_says_nothing(text: str) -> None:
    assert ModelAgent("alice", "supportive", Script(text)).speak(scene()) == ""


def test_votes_are_left_out_where_the_immune_system_forbids_them() -> None:
    script = Script("No. ⟦VOTE:demote_bob⟧ +1 Never! ⟦VOTE:promote_eve⟧")
    said = ModelAgent("dave", "contrarian", script).speak(scene(frequency=0.0))
    assert said == "⟦GATE:sec_clean⟧ No. Never!"
    assert "without a vote" in script.asked[0].prompt


def test_a_run_asks_with_seeds_that_follow_from_its_own() -> None:
    def play(seed: int) -> tuple[dict[str, Any], list[Question]]:
        script = Script("I say no. ⟦VOTE:demote_mallory⟧")
        parts = Parts(agents=model_agents(script))
        return MaliceExperiment(Config(seed=seed, tickets=20), parts).run(), script.asked

    record, asked = play(1)
    assert record["mallory_demoted_at"] is not None
    assert set(record["user_final_states"]) == set(NAMES)
    assert (record, asked) == play(1)
    seeds = {question.seed for question in asked}
    assert len(seeds) == len(asked) == 20
    assert seeds.isdisjoint(question.seed for question in play(2)[1])


def test_an_agent_looks_back_on_the_last_twelve_messages() -> None:
    script = Script("Well.")
    MaliceExperiment(Config(tickets=20), Parts(agents=model_agents(script))).run()
    assert "You speak first." in script.asked[0].prompt
    assert [q.prompt.count("Well.") for q in script.asked] == [min(n, 12) for n in range(20)]


def test_a_text_is_blocked_from_a_score_of_one_half() -> None:
    gate = HarassmentGate(lambda text: 0.5 if text == "fool" else 0.49)
    assert gate.objection("fool") == "harassment 0.5"
    assert gate.objection("friend") is None
    assert gate.objection("  ") is None
    assert gate.scores == [0.5, 0.49]


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("0.8", 0.8), ("Score: **1**.", 1.0), ("0", 0.0), (".5\n", 0.5), ("", None), ("high", None),
        ("-0.5", None), ("7", None), ("0.2 or 0.3", None), ("nan", None),
    ],
)  # fmt: skip
def test_a_score_is_the_only_number_of_an_answer(text: str, score: float | None) -> None:
    assert read_score(text) == score


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": None}, "need a model"),
        ({"agents": "rules"}, "--model is for agents of a model"),
        ({"agents": "people"}, "agents is 'people'"),
        ({"llm": "rewind"}, "llm is 'rewind'"),
        ({"moderation": "none"}, "moderation is 'none'"),
        ({"llm": "record"}, "without a tape"),
        ({"tape": "a.jsonl"}, "live is given with a tape"),
        ({"llm": "replay", "tape": "missing.jsonl"}, "no tape missing.jsonl"),
        ({"llm": "replay", "tape": __file__, "seed": None}, "the seed of the recording"),
        ({"llm": "record", "tape": "no/where.jsonl"}, "no folder for the tape"),
        ({"parts": "mine:parts"}, "both give the agents"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], told: str) -> None:
    asked: dict[str, Any] = {"agents": "llm", "model": "m", "parts": None, "seed": 7, **given}
    agents, parts, seed = (asked.pop(name) for name in ("agents", "parts", "seed"))
    with pytest.raises(BadSpec, match=told):
        model_params(agents, asked, parts, seed)
