"""Checks how long a simulated cluster goes without service.

It also checks how long its leaders keep a fetch that they could answer.

``Service`` looks again and again whether each partition has a leader that runs, with as many
replicas in sync as an append asks for. Time counts while nothing is done to the cluster: all nodes
run, no fault goes on, no link is cut or slow. What was lost with the last fault has to be back
within ``limit_seconds``. And it looks whether a node still leads what is in a log directory of its
that failed, though all nodes run: the controller hears of that with the next heartbeat.

``LeaderWaiters`` fetch at the end of what one node leads, as ``node_waits`` does at a node alone.

``what_followers_miss`` asks of followers that they learn what is safe, also where nothing is
appended any more: consumers read from them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

import trio

from log_service.common.types import TopicId, TopicPartition
from log_service.replication.partition import Partition
from tests.sim.cluster_faults import ClusterAdversary
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.node_host import NodeHost
from tests.sim.node_waits import PAUSE_SECONDS, Line, RefusedError, Waiters
from tests.sim.quorum_witness import Report

PartitionId = tuple[TopicId, int]

LOOK_SECONDS = 0.2
RARE_LOOK_SECONDS = 2.0
SAFE_LIMIT_SECONDS = 10.0
"""Within which a follower knows what its leader knew to be safe: a pause after a refusal, a fetch
that waits, and slow links.
"""


class _Span:
    """How long something has been the case without a break."""

    def __init__(self) -> None:
        self._since = trio.current_time()
        self._is_told = False

    def note(self, is_so: bool) -> float:
        """Take note of what is the case now, and return for how many seconds it has been."""
        if not is_so:
            self._since, self._is_told = trio.current_time(), False
        return trio.current_time() - self._since

    def is_first_beyond(self, limit_seconds: float) -> bool:
        """Whether it has been so for longer, which is told once."""
        is_first = not self._is_told and trio.current_time() - self._since > limit_seconds
        self._is_told = self._is_told or is_first
        return is_first


class Service:
    """Watches the topic ``safe``; ``report`` takes what is not served for too long.

    ``longest_seconds`` is the longest time that it was not served though nothing was done to the
    cluster.
    """

    def __init__(
        self,
        report: Report,
        plan: ClusterPlan,
        adversaries: list[ClusterAdversary],
        hosts: tuple[NodeHost, ...],
    ) -> None:
        self.longest_seconds = 0.0
        self._report = report
        self.limit_seconds = plan.service_limit_seconds
        self._stranded_limit_seconds = plan.failover_limit_seconds
        self._look_seconds = LOOK_SECONDS if plan.pace == 1 else RARE_LOOK_SECONDS
        self._adversaries = adversaries
        self._hosts = hosts
        topic = plan.topics[0]
        self._wanted_isr = int(topic.configs["min.insync.replicas"])
        self._partitions = [
            TopicPartition(topic.name, index) for index in range(topic.partition_count)
        ]

    async def watch(self) -> None:
        """Look until cancelled."""
        unserved_span, stranded_span = _Span(), _Span()
        while True:
            await trio.sleep(self._look_seconds)
            unserved = [
                partition for partition in self._partitions if not self._is_served(partition)
            ]
            seconds = unserved_span.note(bool(unserved) and self._is_left_alone())
            self.longest_seconds = max(self.longest_seconds, seconds)
            if unserved_span.is_first_beyond(self.limit_seconds):
                text = f"{unserved} not served for {seconds:.1f} s, though nothing was done to the cluster"
                self._report("availability", text)
            stranded = list(self._stranded())
            seconds = stranded_span.note(bool(stranded) and self._are_up())
            if stranded_span.is_first_beyond(self._stranded_limit_seconds):
                self._report(
                    "availability",
                    f"{', '.join(stranded)} for {seconds:.1f} s, though all nodes run",
                )

    def _are_up(self) -> bool:
        return all(
            host.is_running and host.current is not None and host.current.is_up
            for host in self._hosts
        )

    def _is_left_alone(self) -> bool:
        return self._are_up() and not any(adversary.is_striking for adversary in self._adversaries)

    def _stranded(self) -> Iterator[str]:
        """Return what is led, as the newest metadata say, by nodes whose log directory of it
        failed.
        """
        running = [
            host
            for host in self._hosts
            if host.is_running
            and host.current is not None
            and host.current.broker.open_rooms is not None
        ]
        images = [host.current.broker.image for host in running if host.current is not None]
        if not images:
            return
        newest = max(images, key=lambda image: image.offset)
        for host in running:
            assert host.current is not None
            assert host.current.broker.open_rooms is not None
            for partition in host.current.broker.open_rooms.replicas.partitions.values():
                topic = (
                    newest.topics.by_id.get(partition.topic_id) if partition.is_offline else None
                )
                known = (
                    None
                    if topic is None
                    else topic.partitions.get(partition.topic_partition.partition)
                )
                if known is not None and known.leader == host.node_id:
                    yield f"{host.name} leads {partition.topic_partition}, whose log directory failed,"

    def _is_served(self, partition: TopicPartition) -> bool:
        for host in self._hosts:
            rooms = (
                host.current.broker.open_rooms
                if host.is_running and host.current is not None
                else None
            )
            found = None if rooms is None else rooms.replicas.partitions.get(partition)
            if (
                found is not None
                and found.state.is_leader
                and not found.is_offline
                and len(found.state.isr) >= self._wanted_isr
            ):
                return True
        return False


async def what_followers_miss(hosts: Sequence[NodeHost]) -> str | None:
    """Wait until every follower knows what is safe by now at its leader; say which one does not."""
    safe = {
        _id_of(partition): partition.high_watermark
        for _, partition in _replicas(hosts)
        if partition.is_leader
    }
    with trio.move_on_after(SAFE_LIMIT_SECONDS):
        while _unaware(hosts, safe):  # noqa: ASYNC110 - many nodes make it so
            await trio.sleep(LOOK_SECONDS)
    return next(iter(_unaware(hosts, safe)), None)


def _unaware(hosts: Sequence[NodeHost], safe: Mapping[PartitionId, int]) -> list[str]:
    return [
        f"{host.name} knows {partition.topic_partition} to be safe up to {partition.high_watermark}, not {safe[_id_of(partition)]}"
        for host, partition in _replicas(hosts)
        if partition.high_watermark < safe.get(_id_of(partition), 0)
    ]


def _replicas(hosts: Sequence[NodeHost]) -> Iterator[tuple[NodeHost, Partition]]:
    """Return what the nodes that run hold, and can be read."""
    for host in hosts:
        rooms = (
            host.current.broker.open_rooms if host.is_running and host.current is not None else None
        )
        held = () if rooms is None else rooms.replicas.partitions.values()
        yield from ((host, partition) for partition in held if not partition.is_offline)


def _id_of(partition: Partition) -> PartitionId:
    return partition.topic_id, partition.topic_partition.partition


class LeaderWaiters(Waiters):
    """Clients fetch from one node the partitions that it leads."""

    async def run(self) -> None:
        """Wait in both ways: in a session and without one."""
        self.world.clock.on_idle.append(self._visibility.look)
        try:
            async with trio.open_nursery() as nursery:
                for number in range(2):
                    nursery.start_soon(self._keep_on, f"waiter-{number}", self._fetch)
        finally:
            self.world.clock.on_idle.remove(self._visibility.look)

    async def _make_topic(self, line: Line) -> None:
        """The topics of the plan are there."""

    async def _fetch(self, line: Line, rng: Random) -> None:
        current = self._host.current
        rooms = current.broker.open_rooms if self._host.is_running and current is not None else None
        led = {} if rooms is None else rooms.replicas.partitions
        names = {topic.name for topic in self.history.topics.values()}
        self._partitions = [
            TopicPartition(*key)
            for key, found in led.items()
            if found.state.is_leader and key[0] in names
        ]
        if not self._partitions:
            await trio.sleep(PAUSE_SECONDS)
            raise RefusedError
        await super()._fetch(line, rng)

    @contextmanager
    def _judged(self, what: str, since: Callable[[], float | None]) -> Iterator[None]:
        """A process that was stopped meanwhile could not respond."""
        count = self.world.pause_counts[self._host.name]

        def since_unless_paused() -> float | None:
            return since() if self.world.pause_counts[self._host.name] == count else None

        with super()._judged(what, since_unless_paused):
            yield
