"""A request and its answer as a tape has them: readable, comparable and without secrets."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, quote_plus, unquote_plus, urlencode

import msgspec

from runyard import clock

REDACTED = "[redacted]"

_HEADER = re.compile(r"authorization|cookie|key|token|secret|signature|password", re.IGNORECASE)
_PARAMETER = re.compile(
    r"(?:^|[-_.])(?:api-?key|key|token|secret|sig|signature|password|auth|code)$|apikey$",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"(?:access|refresh|id|auth|bearer|session|api)_?-?token|authorization|private_?-?key|"
    r"(?:client_?-?)?secret|api_?-?key|passw(?:or)?d",
    re.IGNORECASE,
)
_BOUNDARY = re.compile(r'boundary="?([^";]+)')
_EVENT = re.compile(r".+?(?:\r?\n\r?\n|\Z)", re.DOTALL)
_SHORTEST_SECRET = 6

KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
"""Headers of answers that clients act on; others may identify an account."""


class Call(msgspec.Struct, frozen=True):
    """What identifies a request: not its host and headers, so that tapes replay anywhere."""

    method: str
    path: str  # with its query
    body: Any  # JSON, text, {"base64": …}, or None
    secrets: tuple[str, ...] = ()  # values that must not be recorded

    @property
    def key(self) -> str:
        """Equal for equal requests."""
        return canonical(comparable(self.recorded()))

    @property
    def model(self) -> str | None:
        """The model that is asked, if this is a call of one."""
        model = self.body.get("model") if isinstance(self.body, dict) else None
        return model if isinstance(model, str) else None

    def recorded(self) -> dict[str, Any]:
        """The same on a tape."""
        found = {"method": self.method, "path": self.path}
        return found if self.body is None else {**found, "body": self.body}

    @classmethod
    def of(cls, method: str, raw_path: str, headers: Mapping[str, str], content: bytes) -> Call:
        """The request that is about to be sent."""
        path, _, query = raw_path.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        secrets = _secrets(headers, pairs)
        if query:
            shown = [
                (name, REDACTED if _PARAMETER.search(name) else value) for name, value in pairs
            ]
            path = f"{path}?{urlencode(shown, safe='[]')}"
        boundary = _BOUNDARY.search(headers.get("content-type", ""))
        if boundary is not None:
            content = content.replace(boundary[1].encode(), b"boundary")
        body = without(secrets, readable(content))
        return cls(method, without(secrets, path), body, secrets)


def recorded_answer(response: Any, content: bytes, secrets: tuple[str, ...]) -> dict[str, Any]:
    """An answer of httpx with what came of its content; empty if there was none."""
    if response is None:
        return {}
    kept = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    encoding = response.headers.get("content-encoding")
    if encoding is not None:
        try:
            content = type(response)(
                200, headers={"content-encoding": encoding}, content=content
            ).content
        except Exception:  # cut short: it is kept as it came
            kept["content-encoding"] = encoding
    answer: dict[str, Any] = {"status": response.status_code}
    if kept:
        answer["headers"] = kept
    found = without(secrets, readable(content))
    if kept.get("content-type", "").startswith("text/event-stream") and isinstance(found, str):
        answer["events"] = events(found)
    elif isinstance(found, str):
        answer["text"] = found
    elif isinstance(found, dict) and found.keys() == {"base64"}:
        answer |= found
    elif found is not None:
        answer["json"] = found
    return answer


def pieces(answer: dict[str, Any]) -> Iterator[bytes]:
    """The recorded content of an answer, in pieces if it was a stream."""
    for event in answer.get("events", ()):
        yield event.encode()
    if "text" in answer:
        yield answer["text"].encode()
    if "base64" in answer:
        yield base64.b64decode(answer["base64"])
    if "json" in answer:
        yield json.dumps(answer["json"]).encode()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait that an answer asks for."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            seconds = float(headers[name]) * unit
            if math.isfinite(seconds):
                return max(0.0, seconds)
    with suppress(KeyError, ValueError):
        date = parsedate_to_datetime(headers["retry-after"])
        return max(0.0, date.timestamp() - clock.now())
    return None


def comparable(request: Any) -> Any:
    """A request with its tool calls' ids numbered, since some clients draw them at random."""
    numbers: dict[str, str] = {}

    def numbered(value: Any, names: tuple[str, str] = ("", "")) -> Any:
        if isinstance(value, dict):
            return {key: numbered(each, (names[1], key)) for key, each in value.items()}
        if isinstance(value, list):
            return [numbered(each, names) for each in value]
        is_id = names == ("tool_calls", "id") or names[1] == "tool_call_id"
        if is_id and isinstance(value, str):
            return numbers.setdefault(value, f"call {len(numbers)}")
        return value

    return numbered(request)


def canonical(value: Any) -> str:
    """JSON that is equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def readable(content: bytes) -> Any:
    """Bytes as a JSON object or array, as text, or as {"base64": …}; None if empty."""
    if not content:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    is_clear = isinstance(found, list) or (isinstance(found, dict) and found.keys() != {"base64"})
    return found if is_clear else text


def events(text: str) -> list[str]:
    """The events of a stream, each with the empty line that ends it."""
    return _EVENT.findall(text)


def without(secrets: Iterable[str], value: Any) -> Any:
    """The value without these secrets, and without values of fields that are named like one."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return re.sub(rf"(?i)\b((?:{_FIELD.pattern})=)[^&\s]+", rf"\1{REDACTED}", value)
    if isinstance(value, list):
        return [without(secrets, each) for each in value]
    if isinstance(value, dict):
        return {
            name: REDACTED
            if isinstance(each, str) and _FIELD.fullmatch(name)
            else without(secrets, each)
            for name, each in value.items()
        }
    return value


def _secrets(headers: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    found: set[str] = set()
    for name, value in headers.items():
        if _HEADER.search(name):
            # "Bearer <key>", "a=<value>; b=<value>"
            words = [part.split()[-1] for part in value.split(";") if part.strip()]
            found |= {*words, *(word.partition("=")[2] for word in words)}
    found |= {value for name, value in pairs if _PARAMETER.search(name)}
    found |= {form(each) for each in found for form in (unquote_plus, quote_plus)}
    long = [each for each in found if len(each) >= _SHORTEST_SECRET]
    return tuple(sorted(long, key=lambda each: (-len(each), each)))


def _refuse(_name: str) -> Any:
    raise ValueError  # NaN is not JSON


def data_of(text: str) -> Iterator[str]:
    """The data of each event of a stream."""
    for event in events(text):
        lines = [line[5:].strip() for line in event.splitlines() if line.startswith("data:")]
        if lines:
            yield "\n".join(lines)
