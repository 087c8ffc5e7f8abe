"""Full collections of Python's garbage collector stay short, whatever a node holds."""

import subprocess
import sys

import pytest

from log_service.broker.collector_pauses import FEW, LONG_SECONDS, MANY, CollectorPauses

SHORT = LONG_SECONDS / 2


class World:
    """A collector with ``count`` middle collections, of which a full one takes ``seconds``."""

    def __init__(self, count: int, seconds: float) -> None:
        self._count, self._seconds, self._now = count, seconds, 0.0
        self.done: list[str] = []

    def collect(self) -> None:
        self._now += self._seconds
        self.done.append("collect")

    def looked_at(self) -> list[str]:
        CollectorPauses(
            middle_count=lambda: self._count,
            collect=self.collect,
            freeze=lambda: self.done.append("freeze"),
            cpu_seconds=lambda: self._now,
        ).look()
        return self.done


@pytest.mark.parametrize(
    ("count", "seconds", "done"),
    [
        (FEW - 1, SHORT, []),
        (FEW, SHORT, ["collect"]),
        (FEW, 2 * LONG_SECONDS, ["collect", "freeze"]),
        (MANY - 1, SHORT, ["collect"]),
        (MANY, SHORT, ["freeze"]),
    ],
)
def test_a_look_collects_what_is_little_and_freezes_what_is_much(
    count: int, seconds: float, done: list[str]
) -> None:
    assert World(count, seconds).looked_at() == done


REAL_COLLECTOR = """
import gc, weakref
import trio
from trio.testing import MockClock
from log_service.broker.collector_pauses import LOOK_SECONDS, keep_collections_short

class Circle:
    def __init__(self, size):
        self.kept = [[] for _ in range(size)]
        self.itself = self

async def main():
    thresholds = gc.get_threshold()
    async with trio.open_nursery() as nursery:
        await nursery.start(keep_collections_short)
        before = gc.get_freeze_count(), gc.get_stats()[2]["collections"]
        kept = [[] for _ in range(300_000)]
        assert gc.get_stats()[2]["collections"] == before[1], "a full collection began by itself"
        await trio.sleep(2 * LOOK_SECONDS)
        assert gc.get_freeze_count() - before[0] > 290_000, "the objects are not frozen"
        assert gc.get_stats()[2]["collections"] == before[1], "the objects were looked through"
        gone = weakref.ref(Circle(18_000))
        assert gone() is not None, "it is looked for too early"
        await trio.sleep(2 * LOOK_SECONDS)
        assert gone() is None, "a circle stays"
        del kept
        nursery.cancel_scope.cancel()
    assert gc.get_threshold() == thresholds

trio.run(main, clock=MockClock(autojump_threshold=0))
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="collections are incremental")
def test_objects_that_stay_are_frozen_without_a_look_through_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAL_COLLECTOR],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
