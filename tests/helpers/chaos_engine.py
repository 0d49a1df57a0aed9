"""An engine in a process of its own: `python chaos_engine.py SPEC.json`, the spec as JSON text.

Prints one JSON document at the end. Exits as the command line would: 0, or the error's own code.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import runyard as ry
from runyard.backends.processes import close_pools


def main(spec: dict[str, Any]) -> int:
    if spec.get("file_limit"):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (spec["file_limit"], hard))
    batch = ry.grid(
        f"chaos_tasks:{spec['function']}",
        x=range(spec["tasks"]),
        params=spec.get("params", {}),
        seed=spec["seed"],
        name=spec["name"],
    )
    try:
        with ry.Yard(spec["yard"]) as yard:
            result = yard.run(
                batch,
                backend=spec["backend"],
                workers=spec["workers"],
                progress=spec.get("progress"),
                **spec.get("options", {}),
            )
            stats = result.stats
            told = {
                "digest": result.digest,
                "end": result.end,
                "completed": stats.completed,
                "failed": stats.failed,
                "cancelled": stats.cancelled,
            }
    except ry.RunyardError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        return error.exit_code
    print(json.dumps(told), flush=True)
    close_pools()
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
