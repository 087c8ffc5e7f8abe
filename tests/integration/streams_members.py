"""Two instances of a streams group (KIP-1071) act without Kafka Streams.

They report, run the tasks that they get, and give up the rest.

They find the coordinator of their group anew wherever it goes, of whatever product it is. A task
that both run at once is a failure.

A response that is lost may have told tasks that no later one repeats, in either product: an
instance that hears nothing, or that its coordinator is on its way, begins anew.
"""

import time
from collections.abc import Sequence
from typing import Any

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.chaos.load import Client
from tests.integration.wire import Wire

PAUSE_SECONDS = 0.3
TROUBLES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The coordinator is on its way to another node."""
BEGIN_ANEW = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class StreamsMembers(Client):
    """The instances; ``tasks`` are what each runs, and ``heard`` the epochs that each was told."""

    def __init__(self, name: str, bootstrap: str, topics: Sequence[str]) -> None:
        super().__init__(name)
        self._servers = bootstrap.split(",")
        self._wire: Wire | None = None
        self._topology = Topology(
            subtopologies=[
                Subtopology(subtopology_id=topic, source_topics=[topic]) for topic in topics
            ]
        )
        self._epochs = {"a": 0, "b": 0}
        self.tasks: dict[str, set[tuple[str, int]]] = {"a": set(), "b": set()}
        self.heard: dict[str, set[int]] = {"a": set(), "b": set()}
        self.coordinators: set[int] = set()

    def work(self) -> None:
        while not self.stopping.wait(PAUSE_SECONDS):
            for member in self._epochs:
                try:
                    self._beat(member)
                except (OSError, TimeoutError):
                    self._forget_coordinator()
                    self._begin_anew(member)
        self._forget_coordinator()

    def _forget_coordinator(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def _begin_anew(self, member: str) -> None:
        self._epochs[member] = 0
        self.tasks[member] = set()

    def _coordinator(self) -> Wire:
        if self._wire is not None:
            return self._wire
        for server in self._servers:
            try:
                with Wire(server) as asked:
                    (found,) = asked.ask(
                        FindCoordinatorRequest(coordinator_keys=[self.name]), 4
                    ).coordinators
            except (OSError, TimeoutError):
                continue
            if not found.error_code:
                self.coordinators.add(found.node_id)
                self._wire = Wire(f"{found.host}:{found.port}")
                return self._wire
        raise ConnectionError("no node knows the coordinator")

    def _beat(self, member: str) -> None:
        epoch, running = self._epochs[member], sorted(self.tasks[member])
        request = StreamsGroupHeartbeatRequest(
            group_id=self.name,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            topology=None if epoch else self._topology,
            process_id=f"process of {member}",
            active_tasks=[
                RequestTaskIds(subtopology_id=each, partitions=[index]) for each, index in running
            ],
            standby_tasks=[],
            warmup_tasks=[],
        )
        response = self._coordinator().ask(request, 0)
        if response.error_code in TROUBLES:
            self._forget_coordinator()
            self._begin_anew(member)
        elif response.error_code in BEGIN_ANEW:
            self._begin_anew(member)
        elif response.error_code:
            self.failures.append(
                f"{self.name}: {member} heard {response.error_code}: {response.error_message}"
            )
        else:
            self._hear(member, response)

    def _hear(self, member: str, response: Any) -> None:
        self._epochs[member] = response.member_epoch
        self.heard[member].add(response.member_epoch)
        if response.active_tasks is not None:
            self.tasks[member] = {
                (each.subtopology_id, index)
                for each in response.active_tasks
                for index in each.partitions
            }
        twice = self.tasks["a"] & self.tasks["b"]
        if twice:
            self.failures.append(f"{self.name}: both run {sorted(twice)}")

    def wait_until_coordinated_by(self, node_id: int, seconds: float) -> None:
        """Wait until the instances have found this node as the coordinator."""
        deadline = time.monotonic() + seconds
        while node_id not in self.coordinators:
            assert time.monotonic() < deadline, (node_id, self.coordinators, self.failures)
            time.sleep(PAUSE_SECONDS)

    def wait_until_all_run(self, task_count: int, seconds: float) -> None:
        """Wait until every task is run."""
        deadline = time.monotonic() + seconds
        while sum(map(len, self.tasks.values())) < task_count:
            assert time.monotonic() < deadline, (self.tasks, self.failures)
            time.sleep(PAUSE_SECONDS)
