"""Plays seeds with a cluster in virtual time, then judges the cluster as one.

Its nodes and clients are played, and everything that goes wrong.

    make sim NODES=3 SEEDS=0-99          many, on all cores, with figures (python -m tests.sim.cluster_runs --nodes 3 --seeds 0-99)
    make sim NODES=3 SEEDS=17 TRACE=1    one again, with its trace

The order of a run is that of ``node_runs``. Beside what is judged there: the witnesses look at all
nodes after every event; once all is calm each partition has a leader and all of its replicas in
sync within ``WHOLE_LIMIT_SECONDS``, and all nodes know the same metadata; at the end the replicas'
logs are the same, byte for byte, as far as they were committed when the nodes began to stop.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Protocol
from unittest import mock

import trio

from log_service.broker import broker, lifecycle
from log_service.client import Admin
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.metadata.image import MetadataImage
from log_service.protocol.api_versions import ApiKey
from tests.sim.accessing import Accessing
from tests.sim.cluster_aims import AIMS
from tests.sim.cluster_audit import ClusterAuditor, check_replicas
from tests.sim.cluster_clients import ClusterClients
from tests.sim.cluster_faults import Allowance, ClusterAdversary
from tests.sim.cluster_format import format_cluster
from tests.sim.cluster_plan import Aim, ClusterPlan, draw_cluster_plan
from tests.sim.cluster_refusals import (
    LEGITIMATE_IN_CLUSTER,
    LEGITIMATE_WITH_CONSUMERS,
    LEGITIMATE_WITH_STREAMS,
    LEGITIMATE_WITH_TRANSACTIONS,
    LEGITIMATE_WITH_USERS,
)
from tests.sim.cluster_service import LeaderWaiters, Service, what_followers_miss
from tests.sim.cluster_voters import Operator, missing_voter
from tests.sim.cluster_watch import ClusterWatch
from tests.sim.copy_clients import CopyClients
from tests.sim.copying import COPIED_TOPICS, Copying
from tests.sim.node_audit import Auditor
from tests.sim.node_checker import Violation, asked_to_delete, check
from tests.sim.node_clients import Clients
from tests.sim.node_faults import Adversary
from tests.sim.node_history import NEVER, E, Entry, History, Lost, Operation
from tests.sim.node_host import NodeHost
from tests.sim.node_metadata_checker import check_metadata
from tests.sim.node_refusals import check_refusals
from tests.sim.node_runs import Outcome, Run, command, play_plans, play_seeds
from tests.sim.node_waits import check_waits
from tests.sim.queue_checker import check_queue
from tests.sim.queue_clients import QueueClients
from tests.sim.quota_checker import QuotaChecker
from tests.sim.quota_clients import QuotaClients
from tests.sim.streams_application import TOPOLOGY_EPOCH
from tests.sim.streams_checker import StreamsChecker
from tests.sim.streams_clients import StreamsClients
from tests.sim.streams_instances import SESSION_SECONDS
from tests.sim.world import World

WHOLE_LIMIT_SECONDS = 60
"""Within which a calm cluster is whole: a session (9 s at most), a lag time (10 s), back-offs, and
elections in between.
"""
LEAVING_DEADLINE_MS = 1_500
"""How long a broker waits for its leave here: where all stop at once, the last ones have no quorum
left to give it.
"""
STOP_LIMIT_SECONDS = 30
"""Within which all nodes stop at once."""
LOOK_SECONDS = 0.25


class Observer(Protocol):
    """Takes what happens as it is noted."""

    def note(self, entry: Entry, /) -> None:
        """Take what has happened, or has begun."""

    def note_ended(self, operation: Operation, /) -> None:
        """Take what has ended."""


class WatchedHistory(History):
    """A history that others see grow."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.observers: list[Observer] = []

    def add(self, entry: E) -> E:
        super().add(entry)
        for observer in self.observers:
            observer.note(entry)
        return entry

    def end(self, operation: Operation, error: object = None) -> None:
        super().end(operation, error)
        for observer in self.observers:
            observer.note_ended(operation)


class ClusterRun(Run):
    """One cluster in its world, from a seed's plan."""

    plan: ClusterPlan
    stop_limit_seconds = STOP_LIMIT_SECONDS

    def __init__(
        self,
        world: World,
        nursery: trio.Nursery,
        plan: ClusterPlan,
        place: str = "",
        *,
        is_hasty: bool = False,
    ) -> None:
        super().__init__(world, nursery, plan, place)
        self._is_hasty = is_hasty
        self._is_cut_short = False
        self._settled_at = NEVER
        self._ends: Mapping[TopicPartition, int] = {}
        format_cluster(world, plan)
        self.watch = ClusterWatch(
            self.cluster.nodes,
            self._is_kept,
            may_be_unclean=self._may_be_unclean,
            on_lost=self._note_lost,
            history=self.history,
        )
        assert isinstance(self.history, WatchedHistory)
        assert isinstance(self.clients, ClusterClients)
        self.copying = (
            Copying(CopyClients(self.clients, plan), self.watch.report)
            if plan.copier_count
            else None
        )
        self.queue = QueueClients(self.clients, plan) if plan.queue_worker_count else None
        self.streams = (
            StreamsClients(self.clients, plan, self.cluster.nodes)
            if plan.streams_member_count
            else None
        )
        self.metered = (
            QuotaClients(self.clients, plan, self.cluster.nodes) if plan.metered_count else None
        )
        self.history.observers = (
            [self.watch] if self.copying is None else [self.copying, self.watch]
        )
        if self.streams is not None:
            checker = StreamsChecker(
                self.watch.report, session_seconds=SESSION_SECONDS, topology_epoch=TOPOLOGY_EPOCH
            )
            self.history.observers.append(checker)
        windows = plan.nodes[0].config.quota_windows
        self.quotas = QuotaChecker(
            self.watch.report, window_seconds=windows.count * windows.size_ms / 1_000
        )
        if self.metered is not None:
            self.history.observers.append(self.quotas)
        self.accessing = (
            Accessing(self.clients, self.cluster.nodes, self.watch.report)
            if plan.is_secure
            else None
        )

    def _history(self) -> History:
        return WatchedHistory(trio.current_time)

    def _clients(self, place: str) -> Clients:
        return ClusterClients(
            self.world, self.plan, self.history, self.cluster.bootstrap, place=place
        )

    def _auditors(self) -> Sequence[Auditor]:
        return [ClusterAuditor(host) for host in self.cluster.nodes]

    def _adversaries(self) -> Sequence[Adversary]:
        clients = self.clients
        assert isinstance(clients, ClusterClients)
        allowance = Allowance(
            self.plan,
            lambda: self.what_is_missing() is None,
            is_voter_missed=lambda: clients.is_voter_taken_out,
        )
        adversaries = [
            ClusterAdversary(
                self.plan,
                host,
                auditor,
                history=self.history,
                victims=self.victims,
                allowance=allowance,
            )
            for host, auditor in self._audited()
        ]
        for adversary in adversaries:
            adversary.cluster = adversaries
        return adversaries

    async def _play_to_the_end(self) -> None:
        """Play to the end.

        A hasty run ends when a witness finds something, or when it is known that something did not
        end in time.
        """
        with trio.CancelScope() as scope:
            if self._is_hasty:
                self.watch.on_violation = scope.cancel
            await super()._play_to_the_end()
        for host in self.cluster.nodes:
            self.world.resume(host.name)

    def note_violation(self) -> None:
        if self._is_hasty:
            self._is_cut_short = True
            self.watch.on_violation()

    async def _play(self) -> None:
        hurried = mock.patch.object(lifecycle, "LEAVING_DEADLINE_MS", LEAVING_DEADLINE_MS)
        users = nullcontext() if self.accessing is None else self.accessing.attached()
        with (
            self.watch.watching(),
            users,
            hurried,
            mock.patch.object(broker, "warm_up", _stay_cold),
        ):
            await super()._play()

    def _cast(self, senders: trio.Nursery, readers: trio.Nursery) -> None:
        super()._cast(senders, readers)
        assert isinstance(self.clients, ClusterClients)
        if self.copying is not None:
            self.copying.begin(self._beginning(senders), self._beginning(readers))
        for number in range(self.plan.most_once_count):
            self._beginning(readers)(self.clients.take_at_most_once, f"hasty-{number}")
        for number in range(self.plan.queue_worker_count):
            assert self.queue is not None
            self._beginning(readers)(self.queue.work, f"worker-{number}")
        if self.streams is not None:
            for number in range(self.plan.streams_member_count):
                self._beginning(readers)(self.streams.run, f"instance-{number}")
            readers.start_soon(self.streams.watch, "streams-watcher")
            senders.start_soon(self.streams.change, "streams-changer")
            senders.start_soon(self.streams.upgrade, "streams-upgrader")
        if self.accessing is not None:
            self.accessing.begin(self._beginning(senders, is_mortal=False))
        if self.metered is not None:
            self.metered.begin(self._beginning(senders))
        for number in range(self.plan.reassigner_count):
            senders.start_soon(self.clients.reassign, f"reassigner-{number}")
        for number in range(self.plan.grower_count):
            senders.start_soon(self.clients.grow, f"grower-{number}")
        for number in range(self.plan.unclean_elector_count):
            senders.start_soon(self.clients.elect_uncleanly, f"elector-{number}")
        if self.plan.are_voters_dynamic and len(self.controllers) > 1:
            for number in range(max(1, self.plan.voter_changer_count)):
                operator = Operator(
                    self.clients,
                    self.controllers,
                    is_restless=number < self.plan.voter_changer_count,
                )
                readers.start_soon(operator.work, f"operator-{number}")

    @property
    def aim(self) -> str:
        return self.plan.aim

    @property
    def transactions(self) -> Counter[str]:
        return Counter() if self.copying is None else self.copying.counts

    @property
    def decisions(self) -> Counter[str]:
        return Counter() if self.accessing is None else self.accessing.counts

    @property
    def controllers(self) -> list[NodeHost]:
        """The machines that may vote."""
        return [host for host in self.cluster.nodes if host.config.is_controller]

    async def _strike(self) -> None:
        """Let things go wrong, and judge meanwhile how long requests wait, and how long there is no
        service.
        """
        adversaries = [
            adversary for adversary in self.adversaries if isinstance(adversary, ClusterAdversary)
        ]
        self.service = Service(self.watch.report, self.plan, adversaries, self.cluster.nodes)
        async with trio.open_nursery() as waiting:
            waiting.start_soon(self.service.watch)
            if self.plan.are_waits_judged:
                host = self.world.stream("waiters").choice(
                    [host for host in self.cluster.nodes if host.has_partitions]
                )
                waiting.start_soon(LeaderWaiters(self.world, host, self.history, ()).run)
            await self._all(lambda adversary: adversary.strike(self.plan.seconds))
            waiting.cancel_scope.cancel()
        if self.metered is not None:
            self.quotas.end(trio.current_time())

    def _is_kept(self, topic: str, _index: int) -> bool:
        """Return whether this run may lose no committed record of a partition.

        Commits have as many replicas as the plan asks.
        """
        known = self.history.topics.get(topic)
        if known is None:
            return topic in (
                COPIED_TOPICS
                if self.copying is not None
                else ("__consumer_offsets", "__share_group_state")
            )
        return known.is_synced or not any(death.value == "power" for death in self.plan.deaths)

    def _may_be_unclean(self, topic: str) -> bool:
        known = self.history.topics.get(topic)
        return known is not None and known.is_unclean

    def _note_lost(self, partition: TopicPartition, offset: int) -> None:
        self.history.add(Lost(partition=partition, offset=offset))

    # Once all is calm

    async def _settle(self) -> None:
        """Wait until the cluster is whole."""
        with trio.move_on_after(WHOLE_LIMIT_SECONDS) as waiting:
            while self.what_is_missing() is not None:  # noqa: ASYNC110 - many nodes make it so
                await trio.sleep(LOOK_SECONDS)
        await super()._settle()
        self._settled_at = self.history.add(Entry()).at
        env = self.clients.env("describer")
        async with Admin(self.cluster.bootstrap, env=env, **self.clients.settings(env)) as admin:
            for number in range(self.plan.churn_count):
                await self.clients.describe(admin, f"churn-{number}")
        if waiting.cancelled_caught:
            text = f"not whole within {WHOLE_LIMIT_SECONDS} s of calm: {self.what_is_missing()}"
            self.violations.append(Violation("liveness", text))

    async def _create_topics(self) -> None:
        await super()._create_topics()
        if self.copying is not None:
            await self.copying.cast.create_topic()
        if self.queue is not None:
            await self.queue.begin_at_the_first_record()
        if self.streams is not None:
            await self.streams.found_the_group()
        if self.metered is not None:
            await self.metered.set_quotas()
            self.quotas.begin(trio.current_time())
        if self.accessing is not None:
            await self.accessing.begin_with_rights()

    async def _drain(self) -> None:
        """Wait until the groups have read everything.

        Everything is copied then, the queue is empty, and the streams group complete.

        At last users try everything, and followers learn what is safe.
        """
        if self.plan.member_count:
            await super()._drain()
        if self.queue is not None:
            empty = await self.queue.drain()
            self.violations += [empty] if empty is not None else []
        if self.streams is not None:
            incomplete = await self.streams.drain()
            self.violations += [incomplete] if incomplete is not None else []
        if self.copying is not None:
            violation = await self.copying.drain()
            self.violations += [violation] if violation is not None else []
        if self.accessing is not None:
            await self.accessing.settle()
        if (unaware := await what_followers_miss(self.cluster.nodes)) is not None:
            self.violations.append(Violation("liveness", unaware))
        if self.violations:
            self.note_violation()

    async def _read_to_the_end(self) -> None:
        await super()._read_to_the_end()
        if self.copying is not None:
            await self.copying.cast.read_to_the_end()
        if self.accessing is not None:
            await self.accessing.look_at_what_is_left()

    def what_is_missing(self) -> str | None:
        """Say what keeps the cluster from being whole; None where it is."""
        images: list[MetadataImage] = []
        for host in self.cluster.nodes:
            if not host.is_running or host.current is None or not host.current.is_up:
                return f"{host.name} is down"
            images.append(host.current.broker.image)
        newest = max(images, key=lambda image: image.offset)
        for host in self.cluster.nodes:
            if host.has_partitions:
                assert host.current is not None
                known = newest.cluster.brokers.get(host.node_id)  # type: ignore[call-overload]
                if (
                    known is None
                    or known.is_fenced
                    or known.epoch != host.current.broker.rooms.lifecycle.broker_epoch
                ):
                    return f"{host.name} is registered as {known}"
        for name, topic in sorted(newest.topics.by_name.items()):
            for index, partition in sorted(topic.partitions.items()):
                if (
                    not partition.has_leader
                    or set(partition.isr) != set(partition.replicas)
                    or partition.adding_replicas
                ):
                    return f"{name}-{index} is {partition}"
        if (
            self.plan.are_voters_dynamic
            and len(self.controllers) > 1
            and (missing := missing_voter(self.controllers))
        ):
            return missing
        behind = [
            host.name
            for host, image in zip(self.cluster.nodes, images, strict=True)
            if image.topics != newest.topics
        ]
        return f"{behind} do not know the newest topics" if behind else None

    async def _stop(self) -> None:
        """Stop all nodes, and keep the committed end of each partition.

        Coordinators write on while some have left the replicas.
        """
        self._ends = dict(self.watch.replicas.ends)
        await super()._stop()

    def _check_stopped(self) -> None:
        whole, asked = frozenset(self.history.topics), asked_to_delete(self.history)
        self.violations += check_replicas(
            self.cluster.nodes, self._ends, whole, asked, self._compacted
        )

    @property
    def _compacted(self) -> frozenset[str]:
        """The topics that cleaners change, where they run."""
        if not self.plan.nodes[0].config.log_manager.cleaner.is_enabled:
            return frozenset()
        return frozenset(
            {topic.name for topic in self.plan.topics if topic.is_compacted}
            | {"__consumer_offsets", "__transaction_state"}
        )

    def _judge(self) -> None:
        if self.copying is not None:
            self.copying.checker.end()
        self.violations += self.watch.violations
        if self._is_cut_short or (self._is_hasty and self.watch.violations):
            return  # the history has no end
        for judge in (check, check_waits):
            self.violations += judge(self.history)
        self.violations += check_metadata(self.history, self._settled_at)
        if self.queue is not None:
            self.violations += check_queue(self.history, self.queue.topic)
        self.violations += check_refusals(self.history, self._legitimate)

    @property
    def _legitimate(self) -> Mapping[ApiKey, frozenset[ErrorCode]]:
        """Return the refusals that clients may get."""
        if self.streams is not None:
            return LEGITIMATE_WITH_STREAMS
        if self.accessing is not None:
            return LEGITIMATE_WITH_USERS
        if "consumer" in self.plan.group_protocols:
            return LEGITIMATE_WITH_CONSUMERS
        return LEGITIMATE_IN_CLUSTER if self.copying is None else LEGITIMATE_WITH_TRANSACTIONS


async def _stay_cold(_apis: object, _authorizer: object) -> None:
    """Compile nothing ahead.

    It makes no difference in virtual time, and takes as many steps as the rest of a start.
    """


def play(seed: int, node_count: int = 3, aim: Aim | None = None) -> Outcome:
    """Play one seed in virtual time and return what became of it; same seed, same outcome."""
    return play_with_trace(seed, node_count, aim)[0]


def play_until_broken(seed: int, aim: Aim | None = None) -> Outcome:
    """Play one seed, and end at the first broken promise that a witness sees.

    A promise that only the history shows takes the whole run.
    """
    outcomes, _, _ = play_plans(
        seed, [draw_cluster_plan(seed, aim=aim)], partial(ClusterRun, is_hasty=True)
    )
    return outcomes[0]


def play_with_trace(
    seed: int, node_count: int = 3, aim: Aim | None = None, seconds: float | None = None
) -> tuple[Outcome, list[str], list[Entry]]:
    """Play one seed with its trace and its history.

    Faults strike for ``seconds`` if the plan does not say how long.
    """
    plan = draw_cluster_plan(seed, node_count, aim)
    plan = plan if seconds is None else replace(plan, seconds=seconds)
    outcomes, world, histories = play_plans(seed, [plan], ClusterRun)
    return outcomes[0], world.trace, histories[0].entries


def main(arguments: Iterable[str] | None = None) -> int:
    """Play the seeds of the command line, print figures, and return 1 if one of them broke a
    promise.
    """
    parser = command("Simulate a cluster and its clients, one world per seed.")
    parser.add_argument(
        "--nodes", type=int, default=3, help="how many nodes the cluster has, 3 to 7"
    )
    parser.add_argument(
        "--aim", choices=[aim.name for aim in AIMS], help="the scenario to play with each seed"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help="how long faults strike, in virtual time, in place of what the seed draws",
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    aim = next((aim for aim in AIMS if aim.name == options.aim), None)
    return play_seeds(
        options,
        partial(play_with_trace, node_count=options.nodes, aim=aim, seconds=options.seconds),
    )


if __name__ == "__main__":
    sys.exit(main())
