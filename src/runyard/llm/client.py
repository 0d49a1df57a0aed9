"""A client for OpenAI-compatible endpoints: chat completions, tools, streams, embeddings.

It builds requests, reads answers and tries again. Waiting for the rate limit, counting, recording
and replaying happen where requests leave (`wire.py`), in the same way for all clients.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from runyard.addresses import masked
from runyard.errors import UsageError
from runyard.llm.answer import Answer, Assembly, Piece, read_answer, read_scores, read_vectors
from runyard.llm.attempts import Endpoint, RequestAttempts
from runyard.llm.connections import Connections

Messages = str | Sequence[Mapping[str, Any]]

BASE_URL = "https://api.openai.com/v1"
"""The endpoint, unless `OPENAI_BASE_URL` or an argument names another."""

MODERATION = "omni-moderation-latest"
"""The model that moderates, unless an argument names another."""


class Client:
    """An OpenAI-compatible endpoint.

    The address, the key and the model come from `OPENAI_BASE_URL`, `OPENAI_API_KEY` and
    `OPENAI_MODEL` unless given. `timeout` is in seconds, for connecting and for each silence of the
    server. Failures are tried again `retries` times; refusals (429, 529) as often as it takes, for
    up to `patience` seconds.
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
        headers: Mapping[str, str] | None = None,
    ) -> None:
        url = (base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL).strip().rstrip("/")
        key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        if not url.startswith(("http://", "https://")):
            raise UsageError(
                f"{masked(url)!r} is not the address of an endpoint",
                hint="set OPENAI_BASE_URL or `base_url` to one such as http://localhost:8080/v1",
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError("the key holds characters that no key has", hint="copy it again")
        self.model = model or os.environ.get("OPENAI_MODEL")
        self._endpoint = Endpoint(url, key, retries, patience)
        sent = {"authorization": f"Bearer {key}"} if key else {}
        self._connections = Connections(timeout, {**sent, **(headers or {})})

    def chat(
        self,
        messages: Messages,
        *,
        model: str | None = None,
        system: str | None = None,
        **options: Any,
    ) -> Answer:
        """Ask a model and wait for the whole answer.

        `messages` is a question, or a list of messages as the API has them. `timeout=` is for this
        call; further options, such as `temperature` and `tools`, are sent as they are.
        """
        return self._chat(messages, model, system, options).post(self._connections.sync())

    async def achat(
        self,
        messages: Messages,
        *,
        model: str | None = None,
        system: str | None = None,
        **options: Any,
    ) -> Answer:
        """The same in a coroutine."""
        http = await self._connections.asynchronous()
        return await self._chat(messages, model, system, options).apost(http)

    def stream(
        self,
        messages: Messages,
        *,
        model: str | None = None,
        system: str | None = None,
        **options: Any,
    ) -> Iterator[Piece]:
        """Ask a model and yield its answer in pieces, the last of which has the whole answer.

        A stream that breaks before its first piece is tried again.
        """
        attempts = self._chat(messages, model, system, _STREAMED | options)
        while True:
            assembly = Assembly()
            with attempts.noticing():
                http = self._connections.sync()
                with http.stream("POST", **attempts.request) as response:
                    if response.is_error:
                        response.read()
                    attempts.check(response)
                    for line in response.iter_lines():
                        for piece in assembly.feed(line):
                            attempts.is_last = True
                            yield piece
                answer = assembly.answer(attempts.usage)
                break
            time.sleep(attempts.delay)
        yield Piece(answer=answer)

    async def astream(
        self,
        messages: Messages,
        *,
        model: str | None = None,
        system: str | None = None,
        **options: Any,
    ) -> AsyncIterator[Piece]:
        """The same in a coroutine."""
        attempts = self._chat(messages, model, system, _STREAMED | options)
        while True:
            assembly = Assembly()
            with attempts.noticing():
                http = await self._connections.asynchronous()
                async with http.stream("POST", **attempts.request) as response:
                    if response.is_error:
                        await response.aread()
                    attempts.check(response)
                    async for line in response.aiter_lines():
                        for piece in assembly.feed(line):
                            attempts.is_last = True
                            yield piece
                answer = assembly.answer(attempts.usage)
                break
            await asyncio.sleep(attempts.delay)
        yield Piece(answer=answer)

    def embed(
        self, texts: Sequence[str], *, model: str | None = None, **options: Any
    ) -> list[list[float]]:
        """A vector for each text."""
        return self._embed(texts, model, options).post(self._connections.sync())

    async def aembed(
        self, texts: Sequence[str], *, model: str | None = None, **options: Any
    ) -> list[list[float]]:
        """The same in a coroutine."""
        http = await self._connections.asynchronous()
        return await self._embed(texts, model, options).apost(http)

    def moderate(self, text: str, *, model: str = MODERATION, **options: Any) -> dict[str, float]:
        """The moderation endpoint's scores of a text, from 0 to 1, by category."""
        return self._moderate(text, model, options).post(self._connections.sync())

    async def amoderate(
        self, text: str, *, model: str = MODERATION, **options: Any
    ) -> dict[str, float]:
        """The same in a coroutine."""
        http = await self._connections.asynchronous()
        return await self._moderate(text, model, options).apost(http)

    def close(self) -> None:
        """Close the connections of this process."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _chat(
        self,
        messages: Messages,
        model: str | None,
        system: str | None,
        options: Mapping[str, Any],
    ) -> RequestAttempts[Answer]:
        asked = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        first = [] if system is None else [{"role": "system", "content": system}]
        body = {"model": self._model(model), "messages": [*first, *asked], **options}
        return RequestAttempts(self._endpoint, "chat/completions", body, read_answer)

    def _embed(
        self, texts: Sequence[str], model: str | None, options: Mapping[str, Any]
    ) -> RequestAttempts[list[list[float]]]:
        body = {"model": self._model(model), "input": list(texts), **options}
        return RequestAttempts(self._endpoint, "embeddings", body, read_vectors)

    def _moderate(
        self, text: str, model: str, options: Mapping[str, Any]
    ) -> RequestAttempts[dict[str, float]]:
        body = {"model": model, "input": text, **options}
        return RequestAttempts(self._endpoint, "moderations", body, read_scores)

    def _model(self, model: str | None) -> str:
        found = model or self.model
        if not found:
            raise UsageError("no model is named", hint="pass `model=`, or set OPENAI_MODEL")
        return found


_STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def chat(
    messages: Messages,
    *,
    model: str | None = None,
    system: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> Answer:
    """Ask a model and wait for the whole answer; see `Client`."""
    return _client(base_url, api_key).chat(messages, model=model, system=system, **options)


async def achat(
    messages: Messages,
    *,
    model: str | None = None,
    system: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> Answer:
    """The same in a coroutine."""
    client = _client(base_url, api_key)
    return await client.achat(messages, model=model, system=system, **options)


def stream(
    messages: Messages,
    *,
    model: str | None = None,
    system: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> Iterator[Piece]:
    """Ask a model and yield its answer in pieces, the last of which has the whole answer."""
    return _client(base_url, api_key).stream(messages, model=model, system=system, **options)


def astream(
    messages: Messages,
    *,
    model: str | None = None,
    system: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> AsyncIterator[Piece]:
    """The same in a coroutine."""
    return _client(base_url, api_key).astream(messages, model=model, system=system, **options)


def embed(
    texts: Sequence[str],
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> list[list[float]]:
    """A vector for each text."""
    return _client(base_url, api_key).embed(texts, model=model, **options)


async def aembed(
    texts: Sequence[str],
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> list[list[float]]:
    """The same in a coroutine."""
    return await _client(base_url, api_key).aembed(texts, model=model, **options)


def moderate(
    text: str,
    *,
    model: str = MODERATION,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> dict[str, float]:
    """The moderation endpoint's scores of a text, from 0 to 1, by category."""
    return _client(base_url, api_key).moderate(text, model=model, **options)


async def amoderate(
    text: str,
    *,
    model: str = MODERATION,
    base_url: str | None = None,
    api_key: str | None = None,
    **options: Any,
) -> dict[str, float]:
    """The same in a coroutine."""
    return await _client(base_url, api_key).amoderate(text, model=model, **options)


def _client(base_url: str | None, api_key: str | None) -> Client:
    """The client for these settings, or for those of the environment as it is now."""
    names = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL")
    return _cached_client(base_url, api_key, tuple(os.environ.get(name) for name in names))


@lru_cache(maxsize=16)
def _cached_client(
    base_url: str | None, api_key: str | None, _environment: tuple[str | None, ...]
) -> Client:
    return Client(base_url, api_key)
