"""Graphs whose nodes ask a language model. Workers import this module."""

from __future__ import annotations

import os
from typing import Any, TypedDict

import llm_clients
from langgraph.graph import END, START, StateGraph

NOTE = "MODELS_NOTE"
"""The environment variable whose value `draft` adds to its question."""


class Talk(TypedDict, total=False):
    query: str
    plan: str
    draft: str
    answer: str


def plan(state: Talk) -> dict[str, Any]:
    return {"plan": llm_clients.SYNC["langchain"](f"plan {state['query']}")}


def draft(state: Talk) -> dict[str, Any]:
    note = os.environ.get(NOTE, "")
    return {"draft": llm_clients.SYNC["openai"](f"draft {state['query']}{note}")}


def answer(state: Talk) -> dict[str, Any]:
    return {"answer": llm_clients.SYNC["httpx"](f"answer {state['query']}")}


def brief(state: Talk) -> dict[str, Any]:
    return {"answer": llm_clients.SYNC["own"](f"brief {state['query']}")}


def talk() -> StateGraph:
    """plan ──▶ draft ──▶ answer, each with another client"""
    builder = StateGraph(Talk)
    builder.add_node("plan", plan)
    builder.add_node("draft", draft)
    builder.add_node("answer", answer)
    for one, other in ((START, "plan"), ("plan", "draft"), ("draft", "answer"), ("answer", END)):
        builder.add_edge(one, other)
    return builder


def _single(node: Any) -> StateGraph:
    builder = StateGraph(Talk)
    builder.add_node("answer", node)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder


async def aanswer(state: Talk) -> dict[str, Any]:
    return {"answer": await llm_clients.ASYNC["langchain"](f"answer {state['query']}")}


def talk_on_loop() -> StateGraph:
    return _single(aanswer)


def talk_briefly() -> StateGraph:
    return _single(brief)
