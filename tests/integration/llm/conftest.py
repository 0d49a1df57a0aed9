"""A model server, which the environment names as the endpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llm_server import ModelServer

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as found:
        monkeypatch.setenv("OPENAI_BASE_URL", found.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_MODEL", "gpt-4o-mini")
        yield found
