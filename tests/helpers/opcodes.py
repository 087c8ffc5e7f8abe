"""Measures a call by the Python opcodes that it runs, which are the same on every machine.

def test_something() -> None:
    assert opcodes_of(lambda: few.end()) == opcodes_of(lambda: many.end())

Loops of C (``list(d)``, ``sorted``) count once, whatever their length.
"""

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def opcodes_of(call: Callable[[], object]) -> int:
    """Run ``call`` and return the number of its opcodes.

    No garbage is collected meanwhile, because its finalizers would be counted, too.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return _count_monitored(call) if sys.version_info >= (3, 12) else _count_traced(call)
    finally:
        if is_collecting:
            gc.enable()


def _count_monitored(call: Callable[[], object]) -> int:
    """Count opcodes by PEP 669.

    Python 3.13 tells a trace function no opcodes of a function that it traces for the first time.
    """
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - types are checked for Python 3.11
    count = 0
    own_thread = threading.get_ident()

    def on_instruction(_code: object, _offset: int) -> None:
        nonlocal count
        count += threading.get_ident() == own_thread

    tool, event = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, "opcodes")
    try:
        monitoring.register_callback(tool, event, on_instruction)
        monitoring.set_events(tool, event)
        call()
    finally:
        monitoring.set_events(tool, monitoring.events.NO_EVENTS)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    return count


def _count_traced(call: Callable[[], object]) -> int:
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
