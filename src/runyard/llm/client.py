"""A client for OpenAI-compatible endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from runyard.llm.answer import Answer, Piece

Messages = str | Sequence[Mapping[str, Any]]


class Client:
    """An OpenAI-compatible endpoint.

    The address and the key come from `OPENAI_BASE_URL` and `OPENAI_API_KEY` unless given.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        model: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 5,
        patience: float = 600.0,
    ) -> None:
        raise NotImplementedError


def chat(messages: Messages, *, model: str | None = None, **options: Any) -> Answer:
    """Ask a model and wait for the whole answer."""
    raise NotImplementedError


async def achat(messages: Messages, *, model: str | None = None, **options: Any) -> Answer:
    """The same in a coroutine."""
    raise NotImplementedError


def stream(messages: Messages, *, model: str | None = None, **options: Any) -> Iterator[Piece]:
    """Ask a model and yield the answer in pieces."""
    raise NotImplementedError


def astream(
    messages: Messages, *, model: str | None = None, **options: Any
) -> AsyncIterator[Piece]:
    """The same in a coroutine."""
    raise NotImplementedError


def embed(texts: Sequence[str], *, model: str | None = None, **options: Any) -> list[list[float]]:
    """A vector for each text."""
    raise NotImplementedError


async def aembed(
    texts: Sequence[str], *, model: str | None = None, **options: Any
) -> list[list[float]]:
    """The same in a coroutine."""
    raise NotImplementedError
