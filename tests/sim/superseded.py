"""Notes the nodes that coordinate groups in a leader epoch that is over.

They have not heard of a later one.

Decides nothing. Such a node is cut off, was paused, or is about to hear: it tells what its groups
had committed when its successor began. ``node_checker`` judges by that what a client is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from log_service.common.types import GROUP_METADATA_TOPIC
from tests.sim.node_history import History, Superseded
from tests.sim.node_host import Incarnation, NodeHost

Term = tuple[int, int]
"""A partition of the groups' topic, and the leader epoch in which a node coordinates by it."""


@dataclass(slots=True)
class SupersededCoordinators:
    """The coordinators of groups on ``hosts``.

    Those that have a successor and do not know it go into ``history``.
    """

    history: History
    hosts: Sequence[NodeHost]
    _begun: dict[Term, int] = field(default_factory=dict)
    """The first place of the history at which a node may have coordinated in a term."""
    _newest: dict[int, int] = field(default_factory=dict)
    """The latest leader epoch of each partition."""
    _open: dict[tuple[Incarnation, Term], Superseded] = field(default_factory=dict)

    def look(self, active: Iterable[tuple[NodeHost, Incarnation]]) -> None:
        """Look at the nodes of which a task ran, and at all where one of them has begun a term."""
        looked_at, known_count = list(active), len(self._begun)
        for _, incarnation in looked_at:
            for partition, epoch in _terms_of(incarnation):
                self._begun.setdefault((partition, epoch), self.history.place + 1)
                self._newest[partition] = max(epoch, self._newest.get(partition, epoch))
        if len(self._begun) > known_count:
            looked_at = [
                (host, host.current)
                for host in self.hosts
                if host.is_running and host.current is not None
            ]
        for host, incarnation in looked_at:
            for term in _terms_of(incarnation):
                self._note_superseded(host, incarnation, term)
        for (incarnation, term), superseded in list(self._open.items()):
            if (
                not incarnation.is_running
                or term not in _terms_of(incarnation)
                or _has_heard(incarnation, term)
            ):
                self.history.end(superseded)
                del self._open[incarnation, term]

    def _note_superseded(self, host: NodeHost, incarnation: Incarnation, term: Term) -> None:
        partition, epoch = term
        if (
            epoch < self._newest[partition]
            and (incarnation, term) not in self._open
            and not _has_heard(incarnation, term)
        ):
            since = min(
                place
                for (other, begun), place in self._begun.items()
                if other == partition and begun > epoch
            )
            count = len(incarnation.broker.image.topics.by_name[GROUP_METADATA_TOPIC].partitions)
            superseded = Superseded(
                node=host.name,
                groups_partition=partition,
                groups_partition_count=count,
                since=since,
            )
            self._open[incarnation, term] = self.history.add(superseded)


def _terms_of(incarnation: Incarnation) -> list[Term]:
    rooms = incarnation.broker.open_rooms
    return (
        []
        if rooms is None
        else [
            (number, led.coordinator_log.leader_epoch)
            for number, led in rooms.groups.shards.led.items()
        ]
    )


def _has_heard(incarnation: Incarnation, term: Term) -> bool:
    """Whether the metadata that a process knows speak of a later leader epoch, or of no such
    partition.
    """
    found = incarnation.broker.image.topics.partition(GROUP_METADATA_TOPIC, term[0])
    return found is None or found.leader_epoch > term[1]
