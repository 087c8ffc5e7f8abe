"""Looks at all running nodes of a cluster before virtual time passes.

It keeps each contradiction of a promise.

Decides when to look: after all that happened in one moment, and only at nodes of which a task ran
in it. What is looked at is in ``quorum_witness``, ``metadata_witness`` and ``replica_witness``;
``superseded`` notes what a client may be told.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import trio

from log_service.common.types import BrokerEpoch, NodeId, TopicPartition
from log_service.controller.death_detector import DeathDetector
from tests.sim.group_witness import GroupWitness
from tests.sim.metadata_witness import MetadataWitness
from tests.sim.node_checker import Violation
from tests.sim.node_history import Entry, History, Operation, Poll, Send
from tests.sim.node_host import NodeHost
from tests.sim.pauses import HOST
from tests.sim.quorum_witness import QuorumWitness
from tests.sim.replica_witness import ReplicaWitness
from tests.sim.superseded import SupersededCoordinators

MAX_VIOLATIONS = 20
"""One broken promise is told in many ways; the first ones say enough."""


class ClusterWatch:
    """Watches the nodes ``hosts``. ``violations`` is what it found, with the time of each."""

    def __init__(
        self,
        hosts: Sequence[NodeHost],
        is_kept: Callable[[str, int], bool],
        *,
        may_be_unclean: Callable[[str], bool] = lambda _topic: False,
        on_lost: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None,
        history: History | None = None,
    ) -> None:
        self.violations: list[Violation] = []
        self.on_violation: Callable[[], None] = lambda: None
        self.look_count = 0
        self.quorum = QuorumWitness(self.report)
        self.replicas = ReplicaWitness(
            self.report, is_kept, may_be_unclean=may_be_unclean, on_lost=on_lost
        )
        self.metadata = MetadataWitness(self.report, may_be_unclean)
        self.groups = GroupWitness(self.report)
        self.superseded = SupersededCoordinators(
            History(trio.current_time) if history is None else history, hosts
        )
        self._world = hosts[0].world
        self._hosts = {host.name: host for host in hosts}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what happens inside."""
        on_idle = self._world.clock.on_idle
        on_idle.append(self.look)
        try:
            with (
                self.quorum.attached(list(self._hosts.values())),
                self.groups.attached(),
                self._fences_noted(),
            ):
                yield
        finally:
            on_idle.remove(self.look)

    @contextmanager
    def _fences_noted(self) -> Iterator[None]:
        """Take note of each fence for a connection that ended."""
        init = DeathDetector.__init__

        def init_and_listen(
            detector: DeathDetector,
            *arguments: Any,
            fence: Callable[[NodeId, BrokerEpoch], None],
            **options: Any,
        ) -> None:
            def fence_and_note(broker_id: NodeId, epoch: BrokerEpoch) -> None:
                host = self._hosts.get(HOST.get())
                if host is not None and host.current is not None:
                    self.metadata.note_fenced_by_connection(
                        (host.name, host.current.number), detector.watch, broker_id, epoch
                    )
                fence(broker_id, epoch)

            init(detector, *arguments, fence=fence_and_note, **options)

        with mock.patch.object(DeathDetector, "__init__", init_and_listen):
            yield

    def look(self) -> None:
        """Look at the nodes of which a task ran since the last look."""
        names, self._world.active_hosts = self._world.active_hosts, set()
        hosts = [
            (host, host.current)
            for name, host in self._hosts.items()
            if name in names and host.is_running and host.current
        ]
        if hosts:
            self.look_count += 1
            for host, incarnation in hosts:
                self.quorum.look(host, incarnation)
                self.metadata.look(host, incarnation)
                self.groups.look(host, incarnation)
            self.replicas.look(hosts)
            self.superseded.look(hosts)

    def note(self, entry: Entry) -> None:
        """Take what a client saw."""
        if isinstance(entry, Poll):
            self.look()
            self.replicas.check_read(*entry.partition, entry.records, entry.consumer)

    def note_ended(self, operation: Operation) -> None:
        """Take what a client was told."""
        if isinstance(operation, Send) and operation.is_ok and operation.is_acked_by_all:
            self.look()
            self.replicas.check_acknowledged(
                *operation.partition, operation.offset, operation.producer
            )

    def report(self, rule: str, text: str) -> None:
        """Keep a broken promise, with its time; after many the rest is left out."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(rule, f"{trio.current_time():.3f} s: {text}"))
            self.on_violation()
