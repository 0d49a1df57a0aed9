"""A small real server that speaks the chat completions API, as well or as badly as a test wants.

It repeats what it is asked: "hello" is answered with "you said: hello". A token is a word.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

STALL = 60.0
"""Seconds of silence of a server that stalls; tests don't wait for them."""


class ModelServer:
    """Serves until the block ends.

    `faults` are done in turn, one for each request, before it behaves: a status such as 500,
    "stall", "malformed", "hang up", "cut" (in the middle) or "cut early" (before the first word).
    `refuse` is the share of requests that get 429, and `limit` the requests per second above which
    they do. `says` makes the answer to a request's body, instead of repeating what was asked.
    """

    def __init__(
        self,
        *,
        faults: Iterable[int | str] = (),
        refuse: float = 0.0,
        limit: float | None = None,
        retry_after: str | None = None,
        delay: float = 0.0,
        says: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        self.faults = deque(faults)
        self.requests: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.answered: list[float] = []  # when
        self.retry_after = retry_after
        self.delay = delay
        self.says = says
        self._refuse, self._random = refuse, Random(7)
        self._limit, self._tokens, self._filled = limit, 2.0, time.monotonic()
        self._lock = threading.Lock()
        self.over = threading.Event()
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def fault(self, request: dict[str, Any]) -> int | str | None:
        """Note a request; what to do instead of answering it."""
        with self._lock:
            self.requests.append(request)
            if self.faults:
                return self.faults.popleft()
            if self._random.random() < self._refuse or self._is_beyond_limit():
                return 429
            return None

    def note(self, status: int) -> None:
        """Note an answer."""
        with self._lock:
            self.statuses.append(status)
            if status == 200:
                self.answered.append(time.monotonic())

    def _is_beyond_limit(self) -> bool:
        if self._limit is None:
            return False
        now = time.monotonic()
        self._tokens = min(2.0, self._tokens + (now - self._filled) * self._limit)
        self._filled = now
        if self._tokens < 1:
            return True
        self._tokens -= 1
        return False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are nothing to print."""


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._json(200, {"path": self.path})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(content)
        seen = {"path": self.path, "headers": dict(self.headers), "body": body}
        fault = self.model.fault(seen)
        if self.model.delay:
            time.sleep(self.model.delay)
        if isinstance(fault, int):
            self._refuse(fault)
        elif fault == "hang up":
            self.close_connection = True
        elif fault == "stall":
            self.model.over.wait(STALL)
            self.close_connection = True
        elif fault == "malformed":
            self._send(200, b'{"choices": [{"mess')
        elif self.path.endswith("/embeddings"):
            self._embeddings(body)
        elif self.path.endswith("/moderations"):
            scores = {"harassment": 0.9 if "pathetic" in body["input"] else 0.1, "violence": 0.0}
            self._json(200, {"results": [{"category_scores": scores}]})
        elif body.get("stream"):
            self._stream(body, cut=fault)
        else:
            self._json(200, self._completion(body), cut=fault is not None)

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        message, finish = answer_to(body)
        if self.model.says is not None:
            message["content"] = self.model.says(body)
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage_of(body, message),
        }  # fmt: skip

    def _stream(self, body: dict[str, Any], *, cut: str | None) -> None:
        message, finish = answer_to(body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("set-cookie", "session=cookie-of-the-server")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        if message.get("tool_calls"):
            call = message["tool_calls"][0]
            half = len(call["function"]["arguments"]) // 2
            first, second = (
                {
                    "arguments": call["function"]["arguments"][:half],
                    "name": call["function"]["name"],
                },
                {"arguments": call["function"]["arguments"][half:]},
            )
            deltas.append({"tool_calls": [{**call, "index": 0, "function": first}]})
            deltas.append({"tool_calls": [{"index": 0, "function": second}]})
        else:
            deltas += [{"content": f"{word} "} for word in message["content"].split()]
        for number, delta in enumerate(deltas):
            if cut is not None and number == (1 if cut == "cut early" else len(deltas) // 2):
                self.close_connection = True
                return
            self._event(body, [{"index": 0, "delta": delta, "finish_reason": None}])
        self._event(body, [{"index": 0, "delta": {}, "finish_reason": finish}])
        if (body.get("stream_options") or {}).get("include_usage"):
            self._event(body, [], usage=usage_of(body, message))
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")
        self.model.note(200)

    def _event(self, body: dict[str, Any], choices: list[Any], **more: Any) -> None:
        document = {
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": body["model"], "choices": choices, **more,
        }  # fmt: skip
        self._chunk(f"data: {json.dumps(document)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _embeddings(self, body: dict[str, Any]) -> None:
        texts = body["input"]
        data = [
            {"object": "embedding", "index": n, "embedding": [float(len(text)), 0.5]}
            for n, text in reversed(list(enumerate(texts)))
        ]
        usage = {"prompt_tokens": sum(len(text.split()) for text in texts)}
        self._json(200, {"data": data, "model": body["model"], "usage": usage})

    def _refuse(self, status: int) -> None:
        key = self.headers.get("authorization", "")
        error = {"message": f"status {status} for {key}", "code": None}
        if status == 402:  # stands for an account without money
            status, error["code"] = 429, "insufficient_quota"
        headers = {} if self.model.retry_after is None else {"retry-after": self.model.retry_after}
        self._json(status, {"error": error}, **headers)

    def _json(self, status: int, document: Any, *, cut: bool = False, **headers: str) -> None:
        content = json.dumps(document).encode()
        self._send(status, content, cut=cut, **headers)

    def _send(self, status: int, content: bytes, *, cut: bool = False, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if cut:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)
        self.model.note(status)


def answer_to(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The message that answers a request, and why it ends."""
    last = body["messages"][-1]
    if body.get("tools") and last["role"] == "user":
        function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"city": "Oslo"}'}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    return {"role": "assistant", "content": f"you said: {last['content']}"}, "stop"


def usage_of(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """A token is a word; the first word of each request comes from the cache."""
    asked = sum(len(str(each["content"]).split()) for each in body["messages"])
    made = len((message.get("content") or "call").split())
    return {
        "prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made,
        "prompt_tokens_details": {"cached_tokens": 1},
    }  # fmt: skip
