"""Watches the groups of the consumer protocol (KIP-848) on the nodes that coordinate them.

Decides nothing for the nodes: it reads what a coordinator holds of each group. The promises, each
checked whenever something of a group has changed:

* a partition has one owner: no two members are assigned it, or have yet to give it up;
* no partition is taken from a member that says that it still has it, or that says nothing of it;
* no member is in a later epoch than its group, and no target is for a later one;
* the epochs of a group never go back while one coordinator has it. A successor may not have seen
  the last ones: they were not safe yet, and nobody was told of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock
from uuid import UUID
from weakref import WeakKeyDictionary

from log_service.coordinator.group.consumer import steps
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.reconciliation import IsHeld, Target, reconcile
from log_service.coordinator.group.values.consumer_member import CurrentAssignment
from log_service.coordinator.group.values.partitions import Partitions
from tests.sim.node_host import Incarnation, NodeHost
from tests.sim.quorum_witness import Report

RULE = "groups"
Seen = tuple[int, int, tuple[CurrentAssignment, ...]]
"""A group's epoch, that of its target, and what its members hold."""


@dataclass(slots=True)
class GroupWitness:
    """Watches the nodes that it is shown. ``handed_over_count`` is how often a partition was seen
    to have another owner than before.
    """

    report: Report
    handed_over_count: int = 0
    _seen: WeakKeyDictionary[ConsumerGroup, Seen] = field(default_factory=WeakKeyDictionary)
    _owners: dict[tuple[str, UUID, int], str] = field(default_factory=dict)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Listen to each decision what a member holds next."""

        def reconcile_and_check(
            current: CurrentAssignment, target: Target, owned: Partitions | None, is_held: IsHeld
        ) -> CurrentAssignment:
            after = reconcile(current, target, owned, is_held)
            taken = {*_held(current)} - {*_held(after)}
            kept = (
                taken
                if owned is None
                else taken
                & {(topic_id, index) for topic_id, indexes in owned.items() for index in indexes}
            )
            if kept:
                text = f"{sorted(kept)} of epoch {current.epoch} are taken from one that has not given them up: {current}, then {after}"
                self.report(RULE, text)
            return after

        with mock.patch.object(steps, "reconcile", reconcile_and_check):
            yield

    def look(self, host: NodeHost, incarnation: Incarnation) -> None:
        """Look at the groups that a process coordinates."""
        for group in groups_of(incarnation):
            seen = (
                group.epoch.epoch,
                group.target_epoch.epoch,
                tuple(member.current for member in group.members.values()),
            )
            before = self._seen.get(group)
            if before is None or not _is_the_same(before, seen):
                self._seen[group] = seen
                self._check(f"{group.group_id} on {(host.name, incarnation.number)}", group, before)

    def _check(self, name: str, group: ConsumerGroup, before: Seen | None) -> None:
        epoch, target_epoch = group.epoch.epoch, group.target_epoch.epoch
        if before is not None and (epoch < before[0] or target_epoch < before[1]):
            self.report(
                RULE, f"the epochs of {name} went back from {before[:2]} to {(epoch, target_epoch)}"
            )
        if target_epoch > epoch:
            self.report(RULE, f"{name} is in epoch {epoch}, its target in {target_epoch}")
        owners: dict[tuple[str, UUID, int], str] = {}
        for member_id, member in group.members.items():
            if member.current.epoch > epoch:
                self.report(
                    RULE, f"{name} is in epoch {epoch}, and {member_id} in {member.current.epoch}"
                )
            for topic_id, index in _held(member.current):
                key = (group.group_id, topic_id, index)
                if owners.setdefault(key, member_id) != member_id:
                    self.report(
                        RULE,
                        f"{member_id} and {owners[key]} have partition {index} of {topic_id} in {name}",
                    )
        self.handed_over_count += sum(
            self._owners.get(key, owner) != owner for key, owner in owners.items()
        )
        self._owners |= owners


def groups_of(incarnation: Incarnation) -> Iterator[ConsumerGroup]:
    """Return the groups of the consumer protocol that a process has loaded and coordinates."""
    rooms = incarnation.broker.open_rooms
    if rooms is None:
        return
    for led in list(rooms.groups.shards.led.values()):
        if led.runtime is not None:
            yield from (
                group for group in led.shard.groups.values() if isinstance(group, ConsumerGroup)
            )


def _is_the_same(before: Seen, now: Seen) -> bool:
    """Whether nothing has changed; what a member holds is a value that is replaced."""
    return (
        before[:2] == now[:2] and len(before[2]) == len(now[2]) and all(map(_is, before[2], now[2]))
    )


def _is(first: object, second: object) -> bool:
    return first is second


def _held(current: CurrentAssignment) -> Iterator[tuple[UUID, int]]:
    for held in (current.assigned, current.pending_revocation):
        for topic_id, indexes in held.items():
            yield from ((topic_id, index) for index in indexes)
