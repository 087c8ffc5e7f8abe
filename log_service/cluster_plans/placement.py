"""Distributes items (partitions) over hosts (brokers), so that hosts have about the same number.

Each item is on several hosts. The problem is a flow of least cost: each item sends one unit to each
of its hosts, and a host's cost grows with the square of its units. A placement costs least exactly
if no cycle of shifts (an item leaves one host for another) lowers the cost. ``solve`` looks for
such cycles in a graph with one node for each host, until there is none. One of the following is the
cost, and the other decides ties:

- counts first: even counts of items on hosts; among placements that are equally even, the one with
  the fewest new hosts.
- moves first: the fewest new hosts; among those, even counts.

Equal placements differ in which items move. A shift prefers an item whose topic is more frequent on
the host that it leaves than on the one it goes to, and then an item whose bytes even out the two
hosts best.

This module knows nothing of brokers, racks or partitions. The caller says which hosts an item may
have together.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

SINK = -1
MAX_COMPARED = 200
"""The most items of one topic that are compared for the best size.

More would cost time and even out little more.
"""

IsLegal = Callable[[int, Collection[int], int], bool]
"""Whether an item (by its index) may have these hosts while it still lacks this number of hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item to be placed on ``wanted`` hosts.

    ``original`` are its present hosts, which cost nothing. Other hosts cost a copy. ``topic`` and
    size break ties.
    """

    topic: str
    original: frozenset[int]
    wanted: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Shift:
    """One item moves from a host to another."""

    leaving: int
    entering: int
    item: int


class Placement:
    """Places items on hosts. Call ``solve`` once.

    ``receivers`` may get items that they did not have. Every host may get back its own items.
    ``kept`` has the hosts with which each item begins: at most as many as it wants, and only such
    that ``is_legal`` allows together. ``loads`` has the units that count for a host beside these
    items.
    """

    def __init__(
        self,
        items: Sequence[Item],
        kept: Sequence[Collection[int]],
        *,
        hosts: Sequence[int],
        receivers: Collection[int],
        is_legal: IsLegal,
        is_counts_first: bool,
        loads: Mapping[int, int] | None = None,
    ) -> None:
        self._items = items
        self._loads = dict.fromkeys(hosts, 0) | dict(loads or {})
        self._hosts = tuple(hosts)
        self._receivers = frozenset(receivers)
        self._is_legal = is_legal
        self._current = [set(each) for each in kept]
        self._on: dict[int, dict[str, dict[int, None]]] = {host: {} for host in hosts}
        self._count = dict.fromkeys(hosts, 0)
        self._new_host_count = 0
        self._displaced: dict[int, dict[int, None]] = {host: {} for host in hosts}
        self._bytes = dict.fromkeys(hosts, 0)
        self._cheapest: dict[tuple[int, int], tuple[int, int] | None] = {}
        total = sum(item.wanted for item in items) + sum(self._loads.values()) + 1
        self._count_weight, self._move_weight = (
            (4 * total, 1) if is_counts_first else (1, 4 * total * total)
        )
        for index, each in enumerate(kept):
            for host in sorted(each):
                self._enter(index, host)
            self._note_displacement(index)

    def solve(self) -> list[frozenset[int]]:
        """Give every item the hosts that it lacks, and improve the placement as long as possible.

        Return the hosts of each item.
        """
        for index, item in enumerate(self._items):
            while len(self._current[index]) < item.wanted:
                self._enter(index, self._best_new_host(index))
            self._note_displacement(index)
        while self._improve():
            pass
        return [frozenset(hosts) for hosts in self._current]

    def _units(self, host: int) -> int:
        return self._loads[host] + self._count[host]

    # One item

    def _enter(self, index: int, host: int) -> None:
        item = self._items[index]
        self._current[index].add(host)
        self._on[host].setdefault(item.topic, {})[index] = None
        self._count[host] += 1
        self._bytes[host] += item.size_bytes
        self._new_host_count += host not in item.original

    def _leave(self, index: int, host: int) -> None:
        item = self._items[index]
        self._current[index].remove(host)
        del self._on[host][item.topic][index]
        self._count[host] -= 1
        self._bytes[host] -= item.size_bytes
        self._new_host_count -= host not in item.original

    def _note_displacement(self, index: int) -> None:
        """Record whether an item has left its original hosts.

        Only shifts of such an item can cost less than one new host.
        """
        is_displaced = self._current[index] != self._items[index].original
        for host in self._hosts:
            if is_displaced and host in self._current[index]:
                self._displaced[host][index] = None
            else:
                self._displaced[host].pop(index, None)

    def _best_new_host(self, index: int) -> int:
        item, current = self._items[index], self._current[index]
        lacking = item.wanted - len(current) - 1
        candidates = [
            host
            for host in self._hosts
            if host not in current
            and (host in self._receivers or host in item.original)
            and self._is_legal(index, [*current, host], lacking)
        ]
        return min(
            candidates,
            key=lambda host: (
                host not in item.original,
                self._units(host),
                len(self._on[host].get(item.topic, ())),
                self._bytes[host],
                host,
            ),
        )

    # Shifts

    def _cost(self, index: int, leaving: int, entering: int) -> int:
        """Return by how much a shift changes the number of new hosts: -1, 0 or 1."""
        original = self._items[index].original
        return (entering not in original) - (leaving not in original)

    def _is_possible(self, index: int, leaving: int, entering: int) -> bool:
        current = self._current[index]
        if leaving not in current or entering in current:
            return False
        if entering not in self._receivers and entering not in self._items[index].original:
            return False
        return self._is_legal(index, [host for host in current if host != leaving] + [entering], 0)

    def _cheapest_shift(self, leaving: int, entering: int) -> tuple[int, int] | None:
        """Return the least cost of a shift and its item, or None if no item may move."""
        key = (leaving, entering)
        if key not in self._cheapest:
            self._cheapest[key] = self._look_for_shift(leaving, entering)
        return self._cheapest[key]

    def _look_for_shift(self, leaving: int, entering: int) -> tuple[int, int] | None:
        displaced = self._displaced[leaving]
        best: tuple[int, int] | None = None
        for index in displaced:
            cost = self._cost(index, leaving, entering)
            if (best is None or cost < best[0]) and self._is_possible(index, leaving, entering):
                best = (cost, index)
                if cost < 0:
                    return best
        if (best is not None and best[0] < 1) or entering not in self._receivers:
            return best
        for index in chain.from_iterable(self._on[leaving].values()):
            if index not in displaced and self._is_possible(index, leaving, entering):
                return (1, index)
        return best

    def _preferred(
        self, leaving: int, entering: int, cost: int, taken: Collection[int]
    ) -> int | None:
        """Return the item that a shift of this cost should move."""
        gap = self._bytes[leaving] - self._bytes[entering]
        for candidates in self._by_preference(leaving, entering, cost):
            best: tuple[int, int] | None = None
            looked_at = 0
            for index in candidates:
                if (
                    index in taken
                    or self._cost(index, leaving, entering) != cost
                    or not self._is_possible(index, leaving, entering)
                ):
                    continue
                rank = (abs(gap - 2 * self._items[index].size_bytes), index)
                best = rank if best is None else min(best, rank)
                looked_at += 1
                if looked_at == MAX_COMPARED:
                    break
            if best is not None:
                return best[1]
        return None

    def _by_preference(self, leaving: int, entering: int, cost: int) -> Iterator[Collection[int]]:
        """Yield the items that a shift may move, in groups.

        Items whose topic is more frequent on the present host than on the other come first.
        """
        if cost < 1:
            yield self._displaced[leaving]
            return
        here, there = self._on[leaving], self._on[entering]
        for topic in sorted(
            here, key=lambda topic: (len(there.get(topic, ())) - len(here[topic]), topic)
        ):
            yield here[topic]

    # Cycles

    def _edges(self) -> Iterator[tuple[int, int, int]]:
        """Yield the edges of the graph: (from, to, cost) of shifts between hosts.

        ``SINK`` is the end of the flow. An edge to it means one unit more on a host, and an edge
        from it means one unit less.
        """
        for leaving in self._hosts:
            units = self._units(leaving)
            yield leaving, SINK, self._count_weight * (2 * units + 1)
            if not self._count[leaving]:
                continue
            yield SINK, leaving, -self._count_weight * (2 * units - 1)
            for entering in self._hosts:
                if (
                    entering != leaving
                    and (found := self._cheapest_shift(leaving, entering)) is not None
                ):
                    yield leaving, entering, self._move_weight * found[0]

    def _improve(self) -> bool:
        """Apply one cycle that lowers the cost. Return whether there was one."""
        cycle = self._negative_cycle(list(self._edges()))
        if cycle is None:
            return False
        pairs = [
            (here, there)
            for here, there in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
            if SINK not in {here, there}
        ]
        shifts: list[Shift] = []
        for leaving, entering in pairs:
            cheapest = self._cheapest[leaving, entering]
            assert cheapest is not None
            chosen = self._preferred(
                leaving, entering, cheapest[0], {shift.item for shift in shifts}
            )
            shifts.append(Shift(leaving, entering, cheapest[1] if chosen is None else chosen))
        return self._apply(shifts)

    def _negative_cycle(self, edges: Sequence[tuple[int, int, int]]) -> list[int] | None:
        """Return the nodes of a cycle whose cost is below 0, in order (Bellman and Ford).

        Return None if there is none.
        """
        distance = dict.fromkeys([*self._hosts, SINK], 0)
        parent: dict[int, int] = {}
        last: int | None = None
        for _ in range(len(distance) + 1):
            last = None
            for here, there, cost in edges:
                if distance[here] + cost < distance[there]:
                    distance[there] = distance[here] + cost
                    parent[there] = here
                    last = there
            if last is None:
                return None
        assert last is not None
        for _ in range(len(distance)):
            last = parent[last]
        cycle = [last]
        while (node := parent[cycle[-1]]) != last:
            cycle.append(node)
        return cycle[::-1]

    def _apply(self, shifts: Sequence[Shift]) -> bool:
        """Apply a cycle of shifts. Return whether the cost is lower now.

        A whole cycle may be impossible, because an item that occurs twice in it blocks itself. Then
        one of its two parts is applied, which lowers the cost, too.
        """
        before = self._total_cost()
        done: list[Shift] = []
        for shift in shifts:
            if not self._is_possible(shift.item, shift.leaving, shift.entering):
                break
            self._shift(shift)
            done.append(shift)
        if len(done) == len(shifts) and self._total_cost() < before:
            return True
        for shift in reversed(done):
            self._shift(Shift(shift.entering, shift.leaving, shift.item))
        return any(self._apply(part) for part in _split(shifts))

    def _shift(self, shift: Shift) -> None:
        self._leave(shift.item, shift.leaving)
        self._enter(shift.item, shift.entering)
        self._note_displacement(shift.item)
        stale = [
            key
            for key, found in self._cheapest.items()
            if found is not None and found[1] == shift.item
        ]
        for key in stale:
            del self._cheapest[key]
        for leaving in self._current[shift.item]:
            for entering in self._hosts:
                known = self._cheapest.get((leaving, entering), (2, 0))
                cost = self._cost(shift.item, leaving, entering)
                if (known is None or cost < known[0]) and self._is_possible(
                    shift.item, leaving, entering
                ):
                    self._cheapest.pop((leaving, entering), None)

    def _total_cost(self) -> int:
        counts = sum(self._units(host) ** 2 for host in self._hosts)
        return self._count_weight * counts + self._move_weight * self._new_host_count


def _split(shifts: Sequence[Shift]) -> Iterator[list[Shift]]:
    """Yield the two shorter cycles of a cycle in which an item occurs twice.

    Together they cost the same as the whole, so one of them lowers the cost, too.
    """
    for second, later in enumerate(shifts):
        for first, earlier in enumerate(shifts[:second]):
            if earlier.item != later.item:
                continue
            outer = [
                *shifts[:first],
                Shift(earlier.leaving, later.entering, later.item),
                *shifts[second + 1 :],
            ]
            inner = [
                Shift(later.leaving, earlier.entering, later.item),
                *shifts[first + 1 : second],
            ]
            for part in (outer, inner):
                real = [shift for shift in part if shift.leaving != shift.entering]
                if real:
                    yield real
