"""One call, sent until it is answered: what is tried again, when, and what is said in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from runyard import clock
from runyard.addresses import masked
from runyard.attempt import context
from runyard.errors import ModelError
from runyard.llm.answer import Unusable
from runyard.llm.cell import tape_for_own_call
from runyard.llm.connections import httpx
from runyard.llm.costs import Usage
from runyard.llm.request import retry_after, without
from runyard.llm.wire import EXTENSION, REFUSED, OwnCall

AGAIN = frozenset({408, 409, 500, 502, 503, 504})
"""Statuses after which a request is sent again, besides those that say it was refused."""

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds before the first retry, and the most; they double in between."""

TIMEOUT = "timeout"
"""The option of a call that is not sent."""

NO_MONEY = "insufficient_quota"
"""A refusal that no waiting mends."""

_HINTS = {
    401: "check OPENAI_API_KEY, or `api_key`",
    403: "check that this key may use this model",
    404: "check the model's name, and OPENAI_BASE_URL or `base_url`",
}

T = TypeVar("T")


class Endpoint(NamedTuple):
    """Where calls go, and how hard to try."""

    url: str
    key: str
    retries: int
    patience: float


class _Trouble(Exception):
    """The endpoint answered with an error."""

    def __init__(self, status: int, text: str, after: float | None, *, is_final: bool) -> None:
        super().__init__(text)
        self.status = status
        self.after = after
        self.is_final = is_final


class RequestAttempts(Generic[T]):
    """The attempts at one call."""

    def __init__(
        self,
        endpoint: Endpoint,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Any, Usage], T],
    ) -> None:
        self._endpoint = endpoint
        self._own = OwnCall(tape_for_own_call(), [])
        self._read = read
        self._failures = self._refusals = 0
        self._began = clock.monotonic()
        self._random: Random | None = None
        self._where = f"{body['model']} at {masked(endpoint.url)}"
        self.is_last = False  # what fails now can't be tried again
        self.delay = 0.0  # seconds before the next attempt
        self.request: dict[str, Any] = {
            "url": f"{endpoint.url}/{path}",
            "json": {k: v for k, v in body.items() if v is not None and k != TIMEOUT},
            "extensions": {EXTENSION: self._own},
        }
        if body.get(TIMEOUT) is not None:
            self.request[TIMEOUT] = httpx.Timeout(body[TIMEOUT], pool=None)

    def post(self, http: httpx.Client) -> T:
        """Send the request until it is answered."""
        while True:
            with self.noticing():
                return self._answer(http.post(**self.request))
            time.sleep(self.delay)

    async def apost(self, http: httpx.AsyncClient) -> T:
        """The same in a coroutine."""
        while True:
            with self.noticing():
                return self._answer(await http.post(**self.request))
            await asyncio.sleep(self.delay)

    @property
    def usage(self) -> Usage:
        """What all attempts have used."""
        return reduce(add, self._own.usages, Usage())

    def check(self, response: httpx.Response) -> None:
        """Raise if this is not the answer that was asked for; it must have been read then."""
        status = response.status_code
        if status < 400:
            return
        text, code = _complaint(response)
        is_final = (status not in AGAIN | REFUSED) or code == NO_MONEY
        raise _Trouble(status, text, retry_after(response.headers), is_final=is_final)

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Decide what to do after an error in the block: go on after a delay, or raise."""
        try:
            yield
        except _Trouble as trouble:
            said = f"HTTP {trouble.status}: {trouble}"
            if trouble.is_final or self.is_last:
                raise self._error(said, _HINTS.get(trouble.status)) from None
            if trouble.status in REFUSED:
                self._wait_refused(said, trouble.after)
            else:
                self._wait_failed(said, trouble.after)
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise self._error(str(error), "check OPENAI_BASE_URL, or `base_url`") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            kind = type(error).__name__
            self._wait_failed(f"{kind}: {error}" if str(error) else kind, None)
        except Unusable as error:
            self._wait_failed(str(error), None)

    def _answer(self, response: httpx.Response) -> T:
        self.check(response)
        try:
            document = response.json()
        except ValueError:
            raise Unusable(f"the answer is not JSON: {response.text[:200]!r}") from None
        return self._read(document, self.usage)

    def _wait_refused(self, said: str, after: float | None) -> None:
        """The rate limit makes all senders wait for `Retry-After`, this one too."""
        self._refusals += 1
        waited = clock.monotonic() - self._began
        if waited + (after or 0.0) > self._endpoint.patience:
            asked = "" if after is None else f", and now asks to wait {after:g} s more"
            raise self._error(
                f"refused for {waited:.0f} s{asked}; {said}", "raise `patience`, or send less"
            )
        self._pause(0.0 if after is not None else self._backoff(self._refusals))

    def _wait_failed(self, said: str, after: float | None) -> None:
        self._failures += 1
        if self.is_last or self._failures > self._endpoint.retries:
            times = "" if self._failures == 1 else f" ({self._failures} attempts)"
            raise self._error(said + times, "check that the endpoint works, then run this again")
        self._pause(self._backoff(self._failures) if after is None else after)

    def _pause(self, seconds: float) -> None:
        if self._own.tape.mode == "replay":
            seconds = 0.0
        self.delay = seconds
        self._own.usages.append(Usage(waited=seconds))
        self._own.tape.waited(seconds)

    def _backoff(self, number: int) -> float:
        """The delay before a retry; the spread comes from the task's seed."""
        if self._random is None:
            task = context.current()
            seed = None if task is None else f"{task.seed}/{self._own.tape.begun}"
            self._random = Random(seed)  # noqa: S311
        return backoff(number, self._random)

    def _error(self, said: str, hint: str | None) -> ModelError:
        secrets = [self._endpoint.key] if self._endpoint.key else []
        return ModelError(f"{self._where}: {without(secrets, said)}", hint=hint)


def backoff(number: int, random: Random) -> float:
    """Seconds before a retry, the first of which is 1; spread, to keep callers apart."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(number - 1, 60)) * random.uniform(0.5, 1.0)


def _complaint(response: httpx.Response) -> tuple[str, str | None]:
    """What an error says, and its code."""
    try:
        error = response.json()["error"]
        if isinstance(error, str):
            return error, None
        return str(error["message"]), error.get("code")
    except (ValueError, LookupError, TypeError, AttributeError):
        return response.text[:300] or response.reason_phrase, None
