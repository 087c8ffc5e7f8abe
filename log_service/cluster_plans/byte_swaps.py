"""Evens out bytes between hosts that have equal counts of items, by swaps of two items.

A swap keeps the counts. It costs the copying of both items, so swaps are made only while the bytes
of two hosts differ by more than the tolerance.
"""

from collections.abc import Callable, Collection, Sequence

from log_service.cluster_plans.placement import Item

MAX_SWAPS = 1000
"""The most swaps of one plan. The next plan makes further ones."""

Allowed = Callable[[int, Collection[int]], bool]
"""Whether an item (by its index) may have exactly these hosts."""


def even_bytes(
    items: Sequence[Item],
    placed: Sequence[frozenset[int]],
    hosts: Sequence[int],
    *,
    tolerance: float,
    is_allowed: Allowed,
) -> list[frozenset[int]]:
    """Return a placement that evens out the bytes of hosts.

    ``placed`` has the present hosts of each item, and the result has its new ones. The bytes of the
    fullest and the emptiest host then differ by at most ``tolerance`` of the mean, unless no swap
    helps any more or ``MAX_SWAPS`` are made.
    """
    current = [set(each) for each in placed]
    weights = {
        host: sum(item.size_bytes for item, on in zip(items, current, strict=True) if host in on)
        for host in hosts
    }
    if not weights:
        return list(placed)
    allowed_gap = tolerance * sum(weights.values()) / len(weights)
    for _ in range(MAX_SWAPS):
        by_weight = sorted(weights, key=lambda host: (-weights[host], host))
        pairs = (
            (full, empty)
            for full in by_weight
            for empty in reversed(by_weight)
            if weights[full] - weights[empty] > allowed_gap
        )
        swaps = (
            _best_swap(items, current, pair, weights[pair[0]] - weights[pair[1]], is_allowed)
            for pair in pairs
        )
        swap = next((found for found in swaps if found is not None), None)
        if swap is None:
            break
        full, empty, heavy, light = swap
        current[heavy] = (current[heavy] - {full}) | {empty}
        current[light] = (current[light] - {empty}) | {full}
        moved = items[heavy].size_bytes - items[light].size_bytes
        weights[full] -= moved
        weights[empty] += moved
    return [frozenset(each) for each in current]


def _best_swap(
    items: Sequence[Item],
    current: Sequence[set[int]],
    pair: tuple[int, int],
    gap: int,
    is_allowed: Allowed,
) -> tuple[int, int, int, int] | None:
    """Return the swap after which two hosts differ least in bytes.

    It is (full, empty, item of the full host, item of the empty one). Return None if no swap helps.
    """
    full, empty = pair
    heavy = sorted(
        (i for i, on in enumerate(current) if full in on and empty not in on),
        key=lambda i: items[i].size_bytes,
    )
    light = sorted(
        (i for i, on in enumerate(current) if empty in on and full not in on),
        key=lambda i: items[i].size_bytes,
    )
    best: tuple[float, int, int] | None = None
    start = 0
    for one in heavy:
        wanted = items[one].size_bytes - gap / 2
        while start + 1 < len(light) and abs(items[light[start + 1]].size_bytes - wanted) <= abs(
            items[light[start]].size_bytes - wanted
        ):
            start += 1
        for other in light[start : start + 2]:
            moved = items[one].size_bytes - items[other].size_bytes
            if not 0 < moved < gap:
                continue
            left = abs(gap - 2 * moved)
            is_legal = is_allowed(one, (current[one] - {full}) | {empty}) and is_allowed(
                other, (current[other] - {empty}) | {full}
            )
            if is_legal and (best is None or left < best[0]):
                best = (left, one, other)
    return None if best is None else (full, empty, best[1], best[2])
