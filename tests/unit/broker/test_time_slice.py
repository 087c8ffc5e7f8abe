"""The event loop's thread asks for short slices, and no other thread gets them."""

import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from log_service.broker.time_slice import SLICE_NS, SYSTEM_CALLS, shorten_time_slices, time_slice_ns

T = TypeVar("T")
FIRST_KERNEL_WITH_SLICES = (6, 12)


def in_a_new_thread(work: Callable[[], T]) -> T:
    """Run in a thread that ends afterwards: the tests' own thread stays as it is."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def has_slices() -> bool:
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return (
        sys.platform == "linux"
        and os.uname().machine in SYSTEM_CALLS
        and release >= FIRST_KERNEL_WITH_SLICES
    )


@pytest.mark.skipif(not has_slices(), reason="the kernel lets nobody choose slices")
def test_a_thread_that_asks_gets_short_slices_and_keeps_its_priority() -> None:
    def asked() -> tuple[bool, int | None, int]:
        return shorten_time_slices(), time_slice_ns(), os.getpriority(os.PRIO_PROCESS, 0)

    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert in_a_new_thread(asked) == (True, SLICE_NS, before)


@pytest.mark.skipif(not has_slices(), reason="the kernel lets nobody choose slices")
def test_threads_started_later_keep_the_systems_slices() -> None:
    def started_later() -> int | None:
        shorten_time_slices()
        return in_a_new_thread(time_slice_ns)

    assert in_a_new_thread(started_later) == in_a_new_thread(time_slice_ns) != SLICE_NS


def test_another_system_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not shorten_time_slices()
    assert time_slice_ns() is None
