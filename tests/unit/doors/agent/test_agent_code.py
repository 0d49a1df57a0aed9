"""What a result says of how a program ended."""

from __future__ import annotations

import time

from runyard.doors.agent.functions.code import _last_line

NODE = """\
/app/code.js:1
throw new TypeError("no such thing")
^

TypeError: no such thing
    at Object.<anonymous> (/app/code.js:1:7)

Node.js v20.11.1
"""


def test_the_error_of_a_node_program_stands_above_its_stack() -> None:
    assert _last_line(NODE) == "TypeError: no such thing"


def test_any_other_program_says_last_what_went_wrong() -> None:
    assert _last_line("Error: early\n\nlate\n\n") == "late"
    assert _last_line("Node.js v20.11.1\n") == "Node.js v20.11.1"
    assert _last_line("") == ""


def test_a_program_can_t_keep_its_reader_busy() -> None:
    began = time.process_time()
    for end in ("the end", "Node.js v20"):
        assert _last_line("Error\n" * 170_000 + end)
        assert _last_line("E" * 1_000_000 + f"\n{end}")
    assert time.process_time() - began < 5
