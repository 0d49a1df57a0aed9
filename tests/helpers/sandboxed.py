"""Run pieces of code in the sandbox, as the user of this process, and print what became of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agent_queue import opened


def main(folder: str, settings: str, payloads: str) -> None:
    """Run each payload in a queue of its own settings; results as JSON on stdout."""
    yard = Path(folder, "yard")
    yard.mkdir()
    (yard / "agent.toml").write_text(settings)
    with opened(yard) as queue:
        for name, (function, code) in json.loads(payloads).items():
            queue.add(function, name=name, params={"code": code}, max_retries=0, timeout=30)
        queue.do("start", max_concurrent=4)
        assert queue.drained(120)
        print(json.dumps(queue.tasks()))


if __name__ == "__main__":
    main(*sys.argv[1:])
