"""The model of these examples, recorded once: each has its tape beside it, and needs no network.

`make tapes` sets MODEL=record, which asks the model behind OPENAI_BASE_URL instead.
"""

import os
from pathlib import Path
from typing import Any

from runyard import llm

HERE = Path(__file__).parent


def ask(tape: str, prompt: str, **options: Any) -> str:
    """The model's answer to a prompt.

    The tape's cell is the prompt rather than the task, so that forks and new variants that ask the
    same find the answer, too.
    """
    with llm.tape(HERE / tape, os.environ.get("MODEL", "replay"), cell=prompt):
        answer = llm.chat(prompt, model="smollm2", temperature=0, **options)
    return answer.text.strip()
