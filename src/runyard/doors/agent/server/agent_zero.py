"""A plugin for Agent Zero: the tool, the prompt that explains it, and the manifest.

Agent Zero makes a new tool object for every call and passes on what the model wrote, mostly text.
So the tool keeps no state: it opens the queue, performs one action and closes it again.
"""

from __future__ import annotations

from pathlib import Path

from runyard import __version__
from runyard.addresses import shown
from runyard.doors.agent.inputs.arguments import INSTRUCTIONS, USAGE
from runyard.errors import UsageError
from runyard.store import is_shared

FOLDER = Path("usr", "plugins", "runyard")

_MANIFEST = """\
name: runyard
title: Runyard batch executor
description: A queue of tasks that run in parallel in the background and survive restarts.
version: {version}
settings_sections: []
per_project_config: false
per_agent_config: false
always_enabled: false
"""

_TOOL = '''\
"""A Runyard queue as a tool of Agent Zero; written by `runyard queue install-agent-zero`."""

import os

from helpers.tool import Response, Tool

YARD = {yard!r}


class BatchExecutorTool(Tool):
    """Queues tasks, runs them in the background, collects results."""

    async def execute(self, **kwargs):
        """Perform one action; errors are returned as text."""
        try:
            from runyard.doors.agent.executor import once
        except ImportError as error:
            text = f"error: Runyard is not installed here ({{error}}): pip install runyard"
            return Response(message=text, break_loop=False)
        action = kwargs.pop("action", None) or getattr(self, "method", None) or ""
        yard = os.environ.get("RUNYARD_YARD") or YARD
        answer = await once(yard, action, **kwargs)
        return Response(message=answer.message, break_loop=False)
'''

_PROMPT = """\
### batch_executor
{instructions}
arguments are "action" and those of the action:
{actions}
there is no wait action here: ask for status until it begins with "finished" or "stopped"
usage:
~~~json
{{
    "thoughts": ["many independent pieces of work: queue them and run them in parallel"],
    "headline": "Queueing a calculation",
    "tool_name": "batch_executor",
    "tool_args": {{
        "action": "add",
        "name": "sum",
        "function": "code_execution",
        "params": {{"runtime": "python", "code": "print(sum(range(100)))"}},
        "priority": "high"
    }}
}}
~~~
then call it with "action": "start", "status" and "results"
"""


def install(folder: Path, location: str) -> list[Path]:
    """Write the plugin into an Agent Zero folder; return the files written."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name the folder of Agent Zero")
    yard = shown(location) if is_shared(location) else str(Path(location).absolute())
    actions = "\n".join(f"- {usage}" for usage in USAGE.values())
    about = "\n".join(
        line for line in INSTRUCTIONS.splitlines() if not line.startswith("Use it in this order")
    )
    files = {
        "plugin.yaml": _MANIFEST.format(version=__version__),
        "tools/batch_executor.py": _TOOL.format(yard=yard),
        "prompts/agent.system.tool.batch_executor.md": _PROMPT.format(
            instructions=about, actions=actions
        ),
    }
    written = []
    for name, text in files.items():
        path = folder / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
