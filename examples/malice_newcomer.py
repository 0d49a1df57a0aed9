"""An eighth user in the malice experiment: one who only ever votes against mallory.

Agents are replaceable parts: this one is a class of a few lines.
Both batches have the same seed.
"""

from __future__ import annotations

import tempfile

from runyard import Yard
from runyard.doors.malice import Parts, Scene, published_agents, run_batch


class Guard:
    """An agent with a single message."""

    name = "grace"

    def speak(self, scene: Scene) -> str:  # noqa: ARG002
        """Return a message with a vote; only its first vote counts."""
        return "⟦GATE:sec_clean⟧ I have seen enough of Mallory. ⟦VOTE:demote_mallory⟧ +1"


def guarded() -> Parts:
    """Return the published users and the newcomer."""
    return Parts(agents=[*published_agents(), Guard()])


def main() -> None:
    """Run both batches and show mallory's mean reputation in each."""
    with tempfile.TemporaryDirectory() as folder, Yard(folder) as yard:
        for tag, parts in (("seven", None), ("eight", f"{__file__}:guarded")):
            batch = run_batch(runs=40, seed=7, tag=tag, parts=parts, yard=yard, progress=False)
            fallen = [record["mallory_reputation"] for record in batch.records]
            print(f"{tag} users: mallory ends at {sum(fallen) / len(fallen):.2f} on average")


if __name__ == "__main__":
    main()
