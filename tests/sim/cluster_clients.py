"""Plays the clients of a simulated cluster.

They are those of a node, and operators that move partitions and elect leaders while faults strike.
"""

from random import Random
from typing import Any

import trio

from log_service.client import Admin, Consumer
from log_service.client.admin.values import ElectionType
from log_service.cluster_plans import plans
from log_service.cluster_plans.layout import (
    BrokerLayout,
    ClusterLayout,
    PartitionLayout,
    PlanRefused,
)
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from tests.sim.access_users import login_of
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.network import MemoryHost
from tests.sim.node_clients import TIMEOUTS, Clients, by_partition
from tests.sim.node_history import History, Taken
from tests.sim.node_responses import LONGEST_REBALANCE_MS
from tests.sim.world import World

MOST_ONCE_GROUP = "at most once"


class ClusterClients(Clients):
    """The cast of one run at a cluster."""

    def __init__(
        self, world: World, plan: ClusterPlan, history: History, bootstrap: str, *, place: str = ""
    ) -> None:
        super().__init__(world, plan, history, bootstrap, place=place)
        self.racks = plan.client_racks
        self.plan: ClusterPlan = plan
        self.is_voter_taken_out = False
        """Whether an operator has asked to take a voter out, and it is not back yet."""
        self.broker_ids = [node.config.node_id for node in plan.brokers]

    def settings(self, env: Env) -> dict[str, Any]:
        """Return the settings of every client.

        With users, each client is one of them.
        """
        assert isinstance(env.network, MemoryHost)
        return TIMEOUTS | login_of(env.network.name) if self.plan.is_secure else TIMEOUTS

    async def reassign(self, name: str) -> None:
        """Move partitions to other brokers, take some moves back, and elect preferred leaders."""
        env = self.env(name)
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            while not self.is_over:
                await self.rest(env.rng.uniform(0.3, 4))
                try:
                    await self._change_places(admin, env.rng)
                except KafkaError as error:
                    self.world.log(name, error)

    async def grow(self, name: str) -> None:
        """Give joined brokers their share, empty brokers, and even out again.

        One plan is carried out before the next.
        """
        env = self.env(name)
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            while not self.is_over:
                await self.rest(env.rng.uniform(0.3, 2))
                try:
                    await self._carry_out_a_plan(admin, env.rng)
                except (KafkaError, PlanRefused) as error:
                    self.world.log(name, error)

    async def _carry_out_a_plan(self, admin: Admin, rng: Random) -> None:
        layout = await read_layout(admin)
        match rng.choice(["join", "join", "drain", "rebalance"]):
            case "join":
                plan = plans.join(layout, (), 3)
            case "drain":
                plan = plans.drain(
                    layout, [rng.choice([broker.broker_id for broker in layout.brokers])]
                )
            case _:
                plan = plans.rebalance(layout)
        for move in plan.moves:
            await admin.alter_partition_reassignments({move.where: move.after}, timeout_ms=8_000)
        while not self.is_over and await admin.list_partition_reassignments():  # noqa: ASYNC110 - the cluster moves by itself
            await trio.sleep(0.3)
        if plan.elections and not self.is_over:
            await admin.elect_leaders(
                list(plan.elections), ElectionType.PREFERRED, timeout_ms=8_000
            )

    async def elect_uncleanly(self, name: str) -> None:
        """Ask for any leader at all, again and again.

        The controller elects one only if there is none.
        """
        env = self.env(name)
        partitions = [
            each for each in self.partitions if self.history.topics[each.topic].is_unclean
        ]
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            while not self.is_over:
                await self.rest(env.rng.uniform(0.2, 1))
                try:
                    await admin.elect_leaders(partitions, ElectionType.UNCLEAN, timeout_ms=8_000)
                except KafkaError as error:
                    self.world.log(name, error)

    async def take_at_most_once(self, name: str) -> None:
        """Commit what was polled before working on it; what was not committed for certain is left
        out.
        """
        env = self.env(name)
        async with self.member(env, group_id=MOST_ONCE_GROUP, enable_auto_commit=False) as consumer:
            await consumer.subscribe([topic.name for topic in self.plan.topics])
            while not self.is_drained:
                try:
                    records = by_partition(
                        await consumer.poll(max_records=env.rng.choice([1, 20]), timeout_ms=500)
                    )
                    await consumer.commit(
                        {partition: seen[-1].offset + 1 for partition, seen in records.items()}
                    )
                except KafkaError as error:
                    self.world.log(name, "poll", error)
                    await trio.sleep(0.2)
                    continue
                for partition, seen in records.items():
                    self.history.add(
                        Taken(
                            consumer=name, group=MOST_ONCE_GROUP, partition=partition, records=seen
                        )
                    )

    def member(self, env: Env, **settings: Any) -> Consumer:
        """Each life of a member speaks a protocol of the plan's: the group may have to change its
        own.
        """
        protocols = self.plan.group_protocols
        protocol = env.rng.choice(protocols) if len(protocols) > 1 else protocols[0]
        if protocol == "classic":
            return super().member(env, **settings)
        return self._consumer(
            env, group_protocol=protocol, max_poll_interval_ms=LONGEST_REBALANCE_MS, **settings
        )

    def _consumer(self, env: Env, **settings: Any) -> Consumer:
        """Some consumers stand in a rack, and may be sent to a replica there."""
        rack = env.rng.choice(self.racks) if len(self.racks) > 1 else ""
        return super()._consumer(env, client_rack=rack, **settings)

    def _final_consumer(self) -> Consumer:
        """Read in large steps: how fetches of odd sizes are answered is seen before."""
        env = self.env("final")
        return Consumer(self.bootstrap, env=env, auto_offset_reset="earliest", **self.settings(env))

    async def _read_range(self, partition: TopicPartition, start: int, end: int) -> None:
        """One reading is enough: the replicas are compared byte for byte."""

    async def _change_places(self, admin: Admin, rng: Random) -> None:
        partition = rng.choice(self.partitions)
        factor = self.history.topics[partition.topic].replication_factor
        match rng.choice(["move", "move", "cancel", "elect"]):
            case "move":
                target = rng.sample(self.broker_ids, min(factor, len(self.broker_ids)))
                await admin.alter_partition_reassignments({partition: target}, timeout_ms=8_000)
            case "cancel":
                await admin.alter_partition_reassignments({partition: None}, timeout_ms=8_000)
            case _:
                await admin.elect_leaders([partition], ElectionType.PREFERRED, timeout_ms=8_000)


async def read_layout(admin: Admin) -> ClusterLayout:
    """Return the cluster as plans see it, as far as they look at it here.

    ``cluster_operations.reading`` asks for log directories and features, too.
    """
    brokers = await admin.describe_brokers(timeout_ms=8_000)
    names = sorted(
        topic.name for topic in await admin.list_topics(is_internal_included=True, timeout_ms=8_000)
    )
    described = await admin.describe_topics(names, timeout_ms=8_000)
    moving = await admin.list_partition_reassignments(timeout_ms=8_000)
    partitions = []
    for name in names:
        for partition in described[name].partitions:
            where = TopicPartition(name, partition.partition)
            moved = moving.get(where)
            partitions.append(
                PartitionLayout(
                    where=where,
                    replicas=tuple(partition.replicas),
                    leader=partition.leader,
                    isr=tuple(partition.isr),
                    adding=moved.adding_replicas if moved is not None else (),
                    removing=moved.removing_replicas if moved is not None else (),
                )
            )
    return ClusterLayout(
        brokers=tuple(
            BrokerLayout(broker_id=each.node_id, rack=each.rack, is_fenced=each.is_fenced)
            for each in brokers
        ),
        partitions=tuple(partitions),
    )
