"""Ways to ask a model a question, each with a client that people use; the endpoint is that of the
environment. Each returns the text of the answer."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from runyard import llm

MODEL = "gpt-4o-mini"


@cache
def _tls(module: str) -> Any:
    """Made once: it takes longer than a call."""
    return import_module(module).create_ssl_context()


def _messages(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _own(text: str) -> str:
    return llm.chat(text, model=MODEL).text


def _own_streaming(text: str) -> str:
    return "".join(piece.text for piece in llm.stream(text, model=MODEL)).strip()


def _openai(text: str) -> str:
    import openai

    with openai.OpenAI() as client:
        answer = client.chat.completions.create(model=MODEL, messages=_messages(text))
    return answer.choices[0].message.content or ""


def _openai_streaming(text: str) -> str:
    import openai

    with openai.OpenAI() as client:
        stream = client.chat.completions.create(
            model=MODEL, messages=_messages(text), stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        found = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    return "".join(found).strip()


def _langchain(text: str) -> str:
    import httpx2
    from langchain_openai import ChatOpenAI

    with httpx2.Client(verify=_tls("httpx2")) as http:  # its own are kept open
        return str(ChatOpenAI(model=MODEL, http_client=http).invoke(text).content)


def _langchain_streaming(text: str) -> str:
    import httpx2
    from langchain_openai import ChatOpenAI

    with httpx2.Client(verify=_tls("httpx2")) as http:
        chunks = ChatOpenAI(model=MODEL, http_client=http).stream(text)
        return "".join(str(chunk.content) for chunk in chunks).strip()


def _request(text: str) -> dict[str, Any]:
    return {
        "url": f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        "json": {"model": MODEL, "messages": _messages(text)},
        "headers": {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    }


def _httpx(text: str) -> str:
    import httpx

    return str(httpx.post(**_request(text)).json()["choices"][0]["message"]["content"])


def _httpx2(text: str) -> str:
    import httpx2

    return str(httpx2.post(**_request(text)).json()["choices"][0]["message"]["content"])


async def _aown(text: str) -> str:
    return (await llm.achat(text, model=MODEL)).text


async def _aown_streaming(text: str) -> str:
    return "".join([piece.text async for piece in llm.astream(text, model=MODEL)]).strip()


async def _aopenai(text: str) -> str:
    import httpx2
    import openai

    http = httpx2.AsyncClient(timeout=60, verify=_tls("httpx2"))
    async with openai.AsyncOpenAI(http_client=http) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=_messages(text))
    return answer.choices[0].message.content or ""


async def _aopenai_streaming(text: str) -> str:
    import httpx2
    import openai

    http = httpx2.AsyncClient(timeout=60, verify=_tls("httpx2"))
    async with openai.AsyncOpenAI(http_client=http) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=_messages(text), stream=True
        )
        found = [c.choices[0].delta.content or "" async for c in stream if c.choices]
    return "".join(found).strip()


async def _alangchain(text: str) -> str:
    import httpx2
    from langchain_openai import ChatOpenAI

    async with httpx2.AsyncClient(timeout=60, verify=_tls("httpx2")) as http:
        return str((await ChatOpenAI(model=MODEL, http_async_client=http).ainvoke(text)).content)


async def _alangchain_streaming(text: str) -> str:
    import httpx2
    from langchain_openai import ChatOpenAI

    async with httpx2.AsyncClient(timeout=60, verify=_tls("httpx2")) as http:
        chunks = ChatOpenAI(model=MODEL, http_async_client=http).astream(text)
        return "".join([str(chunk.content) async for chunk in chunks]).strip()


async def _ahttpx(text: str) -> str:
    import httpx

    async with httpx.AsyncClient(timeout=60, verify=_tls("httpx")) as client:
        answer = await client.post(**_request(text))
    return str(answer.json()["choices"][0]["message"]["content"])


SYNC = {
    "own": _own,
    "own streaming": _own_streaming,
    "openai": _openai,
    "openai streaming": _openai_streaming,
    "langchain": _langchain,
    "langchain streaming": _langchain_streaming,
    "httpx": _httpx,
    "httpx2": _httpx2,
}
ASYNC = {
    "own": _aown,
    "own streaming": _aown_streaming,
    "openai": _aopenai,
    "openai streaming": _aopenai_streaming,
    "langchain": _alangchain,
    "langchain streaming": _alangchain_streaming,
    "httpx": _ahttpx,
}
