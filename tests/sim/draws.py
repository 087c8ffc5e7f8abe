"""Draws the random numbers of a simulated world.

Each purpose has a stream of its own, which its name and the seed decide.

With one stream for all, a node that draws one more number changes what everything else in the world
draws after it, so that a seed that has shown something shows it no more. Here it changes what the
same line of the program draws later on that node, and nothing else. The scheduler keeps no stream
at all: an order depends on the moment and on the tasks of one host that run in it.
"""

import sys
import threading
from collections.abc import Callable, MutableSequence
from random import Random
from types import CodeType
from typing import Any
from zlib import crc32

from tests.sim.pauses import HOST

_HERE = {__name__, Random.__module__}
_MASK = (1 << 64) - 1
Place = tuple[CodeType, CodeType | None]
"""The function that draws, and the one that called it."""


class Draws(Random):
    """A generator with one stream for each drawing function, and for each caller of it.

    Helpers draw for many purposes.

    ``name`` says whose it is. A stream depends on it and on the names of the two functions.
    """

    def __init__(self, name: str) -> None:
        super().__init__(0)
        self._name = name
        self._streams: dict[Place, Random] = {}

    def random(self) -> float:
        return self._stream().random()

    def getrandbits(self, k: int) -> int:
        return self._stream().getrandbits(k)

    def _stream(self) -> Random:
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_globals["__name__"] in _HERE:
            frame = frame.f_back
        caller = frame.f_back
        place = frame.f_code, None if caller is None else caller.f_code
        stream = self._streams.get(place)
        if stream is None:
            names = (
                frame.f_globals["__name__"],
                *(code.co_qualname for code in place if code is not None),
            )
            stream = self._streams[place] = Random(f"{self._name} {names}")
        return stream


class Order(Random):
    """Trio's generator while a world runs.

    It orders the tasks of the world's own thread. Other threads draw from the generator before.

    The rank of a task depends on the seed, the moment, the turn in that moment, its host, and how
    many tasks of that host are before it.
    """

    def __init__(self, seed: int, others: Random, now: Callable[[], float]) -> None:
        super().__init__(seed)
        self._seed = seed
        self._others = others
        self._now = now
        self._thread = threading.get_ident()
        self._moment = -1.0
        self._turn = 0

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Shuffle the tasks of one turn of the scheduler.

        ``x`` has them in the order in which they began.
        """
        if len(x) < 2:
            return
        if threading.get_ident() != self._thread:
            self._others.shuffle(x)
            return
        now = self._now()
        self._turn = self._turn + 1 if now == self._moment else 0
        self._moment = now
        counts: dict[str, int] = {}
        ranks: dict[Any, int] = {}
        for task in x:
            host = task.context.get(HOST, "")
            count = counts[host] = counts.get(host, 0) + 1
            ranks[task] = mixed(hash((self._seed, now, self._turn, crc32(host.encode()), count)))
        x[:] = sorted(x, key=ranks.__getitem__)

    def random(self) -> float:
        return self._others.random() if threading.get_ident() != self._thread else super().random()

    def getrandbits(self, k: int) -> int:
        return (
            self._others.getrandbits(k)
            if threading.get_ident() != self._thread
            else super().getrandbits(k)
        )


def mixed(number: int) -> int:
    """Spread a hash of numbers over 64 bits (the finalizer of splitmix64); the same in every
    process.
    """
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _MASK
    return number ^ (number >> 31)
