"""Applications of packages on PyPI, used as they are, with a model that is recorded.

Workers import this module. The tape's path and mode come from the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI
from langgraph_supervisor import create_handoff_tool as create_task_tool
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm

from runyard import llm

TAPE, MODE = "BENCH_TAPE", "BENCH_MODE"


class RecordedModel(ChatOpenAI):
    """Each call is a cell of the tape, named by what is asked."""

    def _generate(self, messages: list[Any], *args: Any, **options: Any) -> Any:
        asked = [[each.type, each.content] for each in messages]
        tools = [each["function"]["name"] for each in options.get("tools") or ()]
        name = hashlib.sha256(json.dumps([asked, tools]).encode()).hexdigest()[:16]
        with llm.tape(os.environ[TAPE], os.environ[MODE], cell=name):
            return super()._generate(messages, *args, **options)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@tool
def news(city: str) -> str:
    """The news of a city."""
    return f"nothing new in {city}"


def model() -> RecordedModel:
    return RecordedModel(model="gpt-4o-mini", api_key="none", max_retries=0)


def agent() -> Any:
    """An agent with tools."""
    return create_agent(model(), [weather, news], system_prompt="You know the weather.")


def supervisor() -> Any:
    """Two agents and one who tells them what to do."""
    return create_supervisor(_team(), model=model(), prompt="You lead two agents.")


def supervisor_with_tools() -> Any:
    """The same with tools in a given order; its own come in that of a set."""
    tools = [create_task_tool(agent_name=each.name) for each in _team()]
    return create_supervisor(_team(), model=model(), tools=tools)


def swarm() -> Any:
    """Two agents that hand over to each other."""
    to_alice = create_handoff_tool(agent_name="alice")
    to_bob = create_handoff_tool(agent_name="bob")
    alice = create_agent(model(), [to_bob, weather], name="alice")
    bob = create_agent(model(), [to_alice, news], name="bob")
    return create_swarm([alice, bob], default_active_agent="alice")


def _team() -> list[Any]:
    meteorologist = create_agent(model(), [weather], name="meteorologist")
    return [meteorologist, create_agent(model(), [news], name="reporter")]
