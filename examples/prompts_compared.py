"""Two prompts compared on a language model, from answers that were recorded once.

The tape next to this file holds the answers of a small model, SmolLM2-135M. To record it again,
serve that model, set OPENAI_BASE_URL, and run `python prompts_compared.py record`.
"""

import sys
import tempfile
from pathlib import Path

import runyard as ry
from runyard import llm

TAPE = str(Path(__file__).with_suffix(".jsonl"))
REVIEWS = {
    "I loved every minute of it.": "positive",
    "A waste of money.": "negative",
    "The best meal of my life!": "positive",
    "It broke after one day.": "negative",
    "Friendly staff and a clean room.": "positive",
    "Never again.": "negative",
}
PROMPTS = {
    "bare": "Is this review positive or negative? {review}",
    "examples": "Review: Great fun! Answer: positive\nReview: So boring. Answer: negative\n"
    "Review: {review} Answer:",
}


def judge(prompt: str, review: str, mode: llm.Mode) -> dict:
    """Ask the model about one review, and see whether it is right."""
    with llm.tape(TAPE, mode, cell=f"{prompt}: {review}") as tape:
        question = PROMPTS[prompt].format(review=review)
        answer = llm.chat(question, model="smollm2", temperature=0, max_tokens=12)
    found = [word for word in ("positive", "negative") if word in answer.text.lower()]
    return {"right": found == [REVIEWS[review]], "tokens": tape.usage.tokens}


with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
    mode = "record" if "record" in sys.argv else "replay"
    batch = ry.grid(
        judge, prompt=list(PROMPTS), review=list(REVIEWS), mode=[mode], seed=5, name="prompts"
    )
    print(yard.run(batch, backend="threads", workers=4).summary(by="prompt"))
