"""How much a call does, as a number that is the same on every machine: the opcodes that it runs in Python.

def test_something() -> None:
    assert opcodes_of(lambda: few.end()) == opcodes_of(lambda: many.end())

Loops of C (``list(d)``, ``sorted``) count once, whatever their length.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def opcodes_of(call: Callable[[], object]) -> int:
    """Run ``call`` and return how many opcodes that took."""
    count = 0

    def on_event(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return on_event

    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
