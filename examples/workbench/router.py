"""A shop's messages are split into requests, and each goes to the desk it is for.

    sort (a language model, or words) ──Send──▶ orders  ──┐
                                      ──Send──▶ returns ──┼──▶ reply
                                      ──Send──▶ hours   ──┘

The desks are subgraphs, which run at once where a message has several requests. The tape,
router_tape.jsonl, holds the answers of SmolLM2-135M, which is too small to be good at sorting.

    runyard workbench run examples/workbench/router.toml
"""

import operator
import re
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from recorded_model import ask

DESKS = ("orders", "returns", "hours")
PARCELS = {"4711": "is on its way", "4712": "was delivered on Monday"}
DAYS = {"saturday": "from ten to two", "sunday": "not at all"}
GRAMMAR = "root ::= " + " | ".join(f'"{each}"' for each in DESKS)  # llama.cpp: nothing else
BARE = "Which desk is this request for: orders, returns or hours? Answer with one word.\n"
EXAMPLES = """Request: Has order 12 been sent?
Desk: orders
Request: The shirt is too small. Can I send it back?
Desk: returns
Request: When do you close on Monday?
Desk: hours
"""


class State(TypedDict, total=False):
    message: str
    sorted: list[dict[str, str]]
    notes: Annotated[list[str], operator.add]
    reply: str


class Desk(TypedDict, total=False):
    request: str
    known: str
    notes: Annotated[list[str], operator.add]


class Notes(TypedDict):
    notes: Annotated[list[str], operator.add]


def by_words(state: State) -> State:
    """Sort by words that give a request away."""
    words = {"returns": ("back", "return", "refund"), "hours": ("open", "close")}

    def desk(request: str) -> str:
        found = (name for name, each in words.items() if any(w in request.lower() for w in each))
        return next(found, "orders")

    return {"sorted": [{"request": each, "desk": desk(each)} for each in _requests(state)]}


def by_model(state: State) -> State:
    """Let the model sort."""
    return _sorted_by_model(state, BARE)


def by_model_with_examples(state: State) -> State:
    """The same with examples in the prompt."""
    return _sorted_by_model(state, EXAMPLES)


def to_desks(state: State) -> list[Send]:
    """Every request to its desk."""
    return [Send(each["desk"], {"request": each["request"]}) for each in state["sorted"]]


def reply(state: State) -> State:
    """One reply from what the desks found."""
    return {"reply": " ".join(state["notes"])}


def find_parcel(desk: Desk) -> Desk:
    """What is known about the parcel that is asked for."""
    numbers = [each for each in re.findall(r"\d+", desk["request"]) if each in PARCELS]
    return {"known": f"Order {numbers[0]} {PARCELS[numbers[0]]}." if numbers else "Which order?"}


def find_rule(desk: Desk) -> Desk:
    """What holds for returns."""
    return {"known": "You can return it within 30 days."}


def find_hours(desk: Desk) -> Desk:
    """When the shop is open on the day that is asked for."""
    day = next((each for each in DAYS if each in desk["request"].lower()), None)
    return {
        "known": f"On {day.title()} we open {DAYS[day]}." if day else "We open from nine to six."
    }


def note(desk: Desk) -> Desk:
    """Hand over what was found."""
    return {"notes": [desk["known"]]}


def build() -> StateGraph:
    """The graph, which sorts by words."""
    builder = StateGraph(State)
    builder.add_node("sort", by_words)
    builder.add_node("reply", reply)
    for name, find in zip(DESKS, (find_parcel, find_rule, find_hours), strict=True):
        desk = StateGraph(Desk, output_schema=Notes)
        desk.add_sequence([("find", find), ("note", note)])
        desk.add_edge(START, "find")
        builder.add_node(name, desk.compile())
        builder.add_edge(name, "reply")
    builder.add_edge(START, "sort")
    builder.add_conditional_edges("sort", to_desks, list(DESKS))
    builder.add_edge("reply", END)
    return builder


def routed(outputs, reference) -> dict:
    """The share of requests that reached their desks."""
    desks = [each["desk"] for each in outputs["sorted"]]
    right = sum(desk == wanted for desk, wanted in zip(desks, reference, strict=True))
    return {"score": right / len(reference), "reason": ", ".join(desks)}


def visited(trajectory, reference) -> bool:
    """Whether every desk that was needed did its work, and no other."""
    return {each.partition(":")[0] for each in trajectory if ":" in each} == set(reference)


def _requests(state: State) -> list[str]:
    return re.findall(r"[^.?!]+[.?!]", state["message"])


def _sorted_by_model(state: State, start: str) -> State:
    found = []
    for request in map(str.strip, _requests(state)):
        prompt = f"{start}Request: {request}\nDesk:"
        desk = ask("router_tape.jsonl", prompt, max_tokens=6, grammar=GRAMMAR)
        found.append({"request": request, "desk": desk})
    return {"sorted": found}
