"""Orders all tests so that each worker begins with long modules.

Otherwise one of them could be left for the end, alone. xdist cuts the list of tests into pieces of
one size, one for each worker, and lets a finished worker take from the end of another's piece. A
module counts as long where it asks for a longer deadline than tests have by default. Modules that
share an expensive start, a JVM in the process of the tests, belong to one worker, which begins with
them, because others take the front of a piece last.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def long_first(
    modules: Mapping[str, Sequence[Item]],
    deadlines_s: Mapping[str, float],
    worker_count: int,
    together: Collection[str] = (),
) -> list[Item]:
    """Return all tests of ``modules`` in the order for ``worker_count`` workers.

    ``deadlines_s`` has the long modules only. The modules ``together`` go to the first worker. The
    longest of the rest are dealt out in turn to the workers that have fewest modules so far. All
    others stay in their order behind them, and modules stay whole where they fit.
    """
    dealt: list[list[Item]] = [[] for _ in range(worker_count)]
    counts = [0] * worker_count
    by_length = sorted({*deadlines_s, *together}, key=lambda one: (-deadlines_s.get(one, 0), one))
    for name in sorted(by_length, key=lambda one: one not in together):
        worker = 0 if name in together else counts.index(min(counts))
        counts[worker] += 1
        dealt[worker] += modules[name]
    others = [
        item
        for name, items in modules.items()
        if name not in deadlines_s and name not in together
        for item in items
    ]
    sizes = piece_sizes(sum(map(len, modules.values())), worker_count)
    spare = (
        list(chain.from_iterable(long[size:] for long, size in zip(dealt, sizes, strict=True)))
        + others
    )
    ordered: list[Item] = []
    for long, size in zip(dealt, sizes, strict=True):
        room = max(size - len(long), 0)
        ordered += [*long[:size], *spare[:room]]
        del spare[:room]
    return ordered


def piece_sizes(count: int, worker_count: int) -> list[int]:
    """Return how many tests xdist gives to each worker at first.

    >>> piece_sizes(7, 3)
    [2, 2, 3]
    """
    sizes: list[int] = []
    for left in range(worker_count, 0, -1):
        sizes.append((count - sum(sizes)) // left)
    return sizes
