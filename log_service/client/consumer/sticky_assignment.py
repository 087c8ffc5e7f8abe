"""Assigns partitions evenly, near to members' racks, with few moves (KIP-54, KIP-881).

The assignment is improved step by step. Owners begin with the partitions that they own, and the
remaining partitions go to the members with the fewest. Then partitions move while this makes the
loads of members more equal. At last partitions move or change places while this brings more of them
near to their members' racks, or back to their owners. A load is a member's number of partitions.

Invariants: once all partitions are placed, every step lowers the sum of the squared loads, or keeps
the sum and lowers the cost. So the work ends. An assignment that this module made is not changed if
the arguments are the same. The result depends on the arguments alone.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from log_service.common.types import TopicPartition

MAX_CIRCLES = 200
MAX_MEMBERS_IN_CIRCLES = 30
"""In larger groups, partitions change places between two members only.

Searching longer cycles would take seconds.
"""


class Kind(NamedTuple):
    """The properties that decide the cost of holding a partition.

    Partitions of equal kind are interchangeable.
    """

    takers: tuple[str, ...]
    racks: frozenset[str]
    owner: str | None


class StickyAssignment:
    """An assignment in progress: the partitions that each member holds so far.

    ``takers`` has the members that may hold a topic's partitions, ``owners`` the member that owned
    a partition before. ``rack_of`` has the rack of members that have one, ``racks`` the racks of a
    partition's replicas. Both are empty if racks make no difference.
    """

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        takers: Mapping[str, Sequence[str]],
        owners: Mapping[TopicPartition, str],
        rack_of: Mapping[str, str],
        racks: Mapping[TopicPartition, frozenset[str]],
    ) -> None:
        self._partitions = sorted(partitions)
        named = {topic: tuple(member_ids) for topic, member_ids in takers.items()}
        self._kinds = {
            each: Kind(
                named[each.topic],
                racks.get(each, frozenset()),
                owner if (owner := owners.get(each)) in named[each.topic] else None,
            )
            for each in self._partitions
        }
        self._may_hold = {member_ids: frozenset(member_ids) for member_ids in named.values()}
        self._rack_of = rack_of
        # One far partition outweighs any number of moves.
        self._far_cost = len(partitions) + 1 if rack_of else 0
        self._held: dict[str, dict[Kind, list[TopicPartition]]] = {
            each: {} for member_ids in named.values() for each in member_ids
        }
        self._loads = dict.fromkeys(self._held, 0)
        self._gifts: dict[str, dict[str, tuple[int, Kind] | None]] = {}

    def place(self) -> dict[str, list[TopicPartition]]:
        """Assign all partitions, and return the sorted partitions of each member."""
        for partition in self._not_kept():
            self._put(partition, self._least(self._kinds[partition]))
        while self._balance():
            pass
        while self._exchange():
            pass
        for _ in range(MAX_CIRCLES if len(self._held) <= MAX_MEMBERS_IN_CIRCLES else 0):
            if not self._pass_round():
                break
        return {
            member_id: sorted(each for kind in held.values() for each in kind)
            for member_id, held in self._held.items()
        }

    def _not_kept(self) -> list[TopicPartition]:
        """Let owners keep their partitions, and return the remaining ones.

        The returned partitions are sorted: those that the fewest members may hold come first, then
        those with the fewest members in their racks. If all members want the same topics, an owner
        keeps at most a fair share, preferably of partitions in its rack. Otherwise the next step
        would take the surplus away one by one.
        """
        share = (
            len(self._partitions)
            if len(self._may_hold) > 1
            else -(-len(self._partitions) // max(len(self._held), 1))
        )
        missing: list[TopicPartition] = []
        for partition in sorted(
            self._partitions,
            key=lambda each: self._cost(self._kinds[each].owner or "", self._kinds[each]),
        ):
            owner = self._kinds[partition].owner
            if owner is not None and self._loads[owner] < share:
                self._put(partition, owner)
            else:
                missing.append(partition)
        kinds = self._kinds
        near_counts = {
            kind: sum(self._is_near(each, kind) for each in kind.takers)
            for kind in dict.fromkeys(kinds.values())
        }
        return sorted(
            missing, key=lambda each: (len(kinds[each].takers), near_counts[kinds[each]], each)
        )

    def _put(self, partition: TopicPartition, member_id: str) -> None:
        self._held[member_id].setdefault(self._kinds[partition], []).append(partition)
        self._loads[member_id] += 1
        self._gifts.pop(member_id, None)

    def _move(self, kind: Kind, giver: str, taker: str) -> None:
        """Move the last partition of a kind from ``giver`` to ``taker``."""
        held = self._held[giver][kind]
        self._put(held.pop(), taker)
        self._loads[giver] -= 1
        self._gifts.pop(giver, None)
        if not held:
            del self._held[giver][kind]

    def _is_near(self, member_id: str, kind: Kind) -> bool:
        return self._rack_of.get(member_id) in kind.racks

    def _cost(self, member_id: str, kind: Kind) -> int:
        """Return the cost of a member holding a partition of a kind.

        The cost is high if no replica is in the member's rack. It is one more if another member
        owned the partition before.
        """
        cost = 0 if self._is_near(member_id, kind) else self._far_cost
        return cost if kind.owner is None or kind.owner == member_id else cost + 1

    def _least(self, kind: Kind) -> str:
        """Return the cheapest of the least loaded members that may hold a partition."""
        loads = self._loads
        least = min(map(loads.__getitem__, kind.takers))
        return min(
            (each for each in kind.takers if loads[each] == least),
            key=lambda each: self._cost(each, kind),
        )

    def _gift(self, giver: str, taker: str) -> tuple[int, Kind] | None:
        """Return the change in cost and the kind of the cheapest move from ``giver`` to ``taker``.

        None means that ``taker`` may hold no partition of ``giver``.
        """
        gifts = self._gifts.setdefault(giver, {})
        if taker not in gifts:
            given = [kind for kind in self._held[giver] if taker in self._may_hold[kind.takers]]
            changes = [(self._cost(taker, kind) - self._cost(giver, kind), kind) for kind in given]
            gifts[taker] = min(changes, key=itemgetter(0), default=None)
        return gifts[taker]

    # Balance loads

    def _balance(self) -> bool:
        """Lower the load of one member by one, in favor of a member with at least two fewer.

        If no partition can move directly, each member on a path between them passes one on. Returns
        whether there were two such members.
        """
        if max(self._loads.values(), default=0) - min(self._loads.values(), default=0) < 2:
            return False
        for giver in sorted(self._held, key=self._loads.__getitem__, reverse=True):
            way = self._way_down(giver)
            for giving, taking in pairwise(way):
                gift = self._gift(giving, taking)
                assert gift is not None, "the way leads over what members may hold"
                self._move(gift[1], giving, taking)
            if way:
                return True
        return False

    def _way_down(self, giver: str) -> list[str]:
        """Return a path of members from ``giver`` to one that has at least two partitions fewer.

        Each member on the path can give a partition to the next one. Both ends are included. The
        path is empty if there is none.
        """
        before = {giver: ""}
        waiting = deque([giver])
        while waiting:
            member_id = waiting.popleft()
            offered = dict.fromkeys(kind.takers for kind in self._held[member_id])
            reached = dict.fromkeys(
                taker for takers in offered for taker in takers if taker not in before
            )
            for taker in sorted(reached, key=self._loads.__getitem__):
                before[taker] = member_id
                if self._loads[taker] < self._loads[giver] - 1:
                    return _way_to(taker, before)
                waiting.append(taker)
        return []

    # Reduce the cost

    def _exchange(self) -> bool:
        """Move partitions to members that hold them at a lower cost. Return whether any moved.

        If a move would make the loads less equal, the member gives another partition back.
        """
        is_changed = False
        for holder, held in self._held.items():
            for kind in list(held):
                while kind in held and self._give_away(kind, holder):
                    is_changed = True
        return is_changed

    def _give_away(self, kind: Kind, holder: str) -> bool:
        cost = self._cost(holder, kind)
        for taker in kind.takers if cost else ():
            gain = cost - self._cost(taker, kind)
            if gain <= 0:
                continue
            if self._loads[taker] < self._loads[holder]:
                self._move(kind, holder, taker)
                return True
            back = self._gift(taker, holder)
            if back is not None and back[0] < gain:
                self._move(kind, holder, taker)
                self._move(back[1], taker, holder)
                return True
        return False

    def _pass_round(self) -> bool:
        """Move partitions round a cycle of members if this lowers the total cost.

        Each member gives one partition to the next. If the next one has more partitions, it may get
        none. The two members then swap their counts, because one of them only gets a partition and
        the other only gives one. If there is no such cycle, the cost is minimal (cycle-cancelling,
        Klein 1967). Returns whether there was a cycle.
        """
        gifts = {giver: self._all_gifts(giver) for giver in self._held}
        distances = dict.fromkeys(self._held, 0)
        before: dict[str, str] = {}
        reached = list(self._held)
        while reached:
            going, reached = dict.fromkeys(reached), []
            for giver in going:
                for taker, (change, _) in gifts[giver].items():
                    if distances[giver] + change < distances[taker]:
                        distances[taker] = distances[giver] + change
                        before[taker] = giver
                        reached.append(taker)
            circle = _circle(before)
            for taker in circle:
                _, kind = gifts[before[taker]][taker]
                if kind is not None:
                    self._move(kind, before[taker], taker)
            if circle:
                return True
        return False

    def _all_gifts(self, giver: str) -> dict[str, tuple[int, Kind | None]]:
        gifts: dict[str, tuple[int, Kind | None]] = {}
        for taker in self._held:
            gift = self._gift(giver, taker) if taker != giver else None
            if self._loads[taker] > self._loads[giver] and (gift is None or gift[0] > 0):
                gifts[taker] = 0, None
            elif gift is not None:
                gifts[taker] = gift
        return gifts


def _way_to(member_id: str, before: Mapping[str, str]) -> list[str]:
    way = [member_id]
    while before[way[-1]]:
        way.append(before[way[-1]])
    return way[::-1]


def _circle(before: Mapping[str, str]) -> list[str]:
    """Return the members of a cycle in ``before``, which maps a member to its predecessor.

    Each member is followed by its predecessor. The list is empty without a cycle.
    """
    seen: dict[str, str] = {}
    for start in before:
        member_id = start
        while member_id in before and member_id not in seen:
            seen[member_id] = start
            member_id = before[member_id]
        if seen.get(member_id) == start:
            circle = [member_id]
            while before[circle[-1]] != member_id:
                circle.append(before[circle[-1]])
            return circle
    return []
