"""Plays the cast around ``streams_application`` in a simulated cluster.

It has the instances, operators that change their world, and observers.

Instances die, leave and come back, each life as a member of its own, and some bring an older
topology; others try to join with a newer one. Meanwhile topics get more partitions, and the group
another number of standby tasks. Once all is calm, the group has to be complete.
"""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import trio

from log_service.client import Admin, ConfigResource
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from tests.sim.cluster_clients import ClusterClients
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.node_checker import Violation
from tests.sim.node_host import NodeHost
from tests.sim.streams_application import (
    CHANGELOG,
    COUNTER,
    GROUP,
    READER,
    REPARTITION,
    TOPOLOGY_EPOCH,
    Application,
)
from tests.sim.streams_checker import missing_tasks
from tests.sim.streams_history import Shown
from tests.sim.streams_instances import JOIN_EPOCH, Instance

MAX_PARTITIONS = 4
FIRST_LATE_OFFSET = 1_000_000
"""From here on are the offsets of commits that come too late."""
WHOLE_SECONDS = 30.0
"""Within which a calm group is complete: a session, a coordinator that loads, a revocation, and
back-offs.
"""
LOOK_SECONDS = 0.3


class StreamsClients:
    """The cast of one run."""

    def __init__(
        self, clients: ClusterClients, plan: ClusterPlan, hosts: Sequence[NodeHost]
    ) -> None:
        self._clients = clients
        self._application = Application(clients, plan.topics[0].name, hosts)
        self._instances: dict[str, Instance] = {}
        """The lives that are under way, by the names of their members."""
        count = plan.streams_member_count
        self._process_count = clients.world.stream("streams").choice([count, count, count - 1])
        self._partition_count = plan.topics[0].partition_count
        self._standby_count = 1
        self._closing_seconds = plan.closing_seconds
        self._life_count = 0
        self._late_offset = FIRST_LATE_OFFSET

    def _instance(
        self, admin: Admin, rng: Random, name: str, process: str, topology_epoch: int
    ) -> Instance:
        self._life_count += 1
        return Instance(
            self._application,
            admin.cluster,
            rng,
            member=f"{name}/{self._life_count}",
            process=process,
            topology_epoch=topology_epoch,
            closing_seconds=self._closing_seconds,
            late_offset=self._next_late_offset,
        )

    def _next_late_offset(self) -> int:
        self._late_offset += 1
        return self._late_offset

    # Instances

    async def found_the_group(self) -> None:
        """Have the first instance say the topology, and leave: the group keeps it."""
        async with self._application.admin("founder") as admin:
            founder = self._instance(
                admin, Random(0), "founder", "process of founder", TOPOLOGY_EPOCH
            )
            while founder.epoch == JOIN_EPOCH:
                await founder.beat()
                await trio.sleep(0.1)
            is_gone = False
            while not is_gone:
                is_gone = await founder.leave()
                await trio.sleep(0.1)

    async def run(self, name: str) -> None:
        """Be one instance after the other on one machine until all is done. Some machines share a
        process.
        """
        env = self._clients.env(name)
        machine = self._clients.machine_of(name)
        process = f"process-{int(machine.rpartition('-')[2]) % self._process_count}"
        while not self._clients.is_drained:
            topology_epoch = env.rng.choice([TOPOLOGY_EPOCH, TOPOLOGY_EPOCH, TOPOLOGY_EPOCH - 1])
            async with self._application.admin(name) as admin:
                instance = self._instance(admin, env.rng, name, process, topology_epoch)
                self._instances[instance.member] = instance
                try:
                    await instance.live(machine)
                finally:
                    del self._instances[instance.member]
            await trio.sleep(0.2)

    async def upgrade(self, name: str) -> None:
        """Try again and again to join with a newer topology."""
        rng = self._clients.env(name).rng
        async with self._application.admin(name) as admin:
            while not self._clients.is_over:
                await trio.sleep(rng.uniform(1, 4))
                await self._instance(
                    admin, rng, name, f"process of {name}", TOPOLOGY_EPOCH + 1
                ).beat()

    # Their world

    async def change(self, name: str) -> None:
        """Give topics more partitions, and the group other numbers of standby tasks, until it is
        over.
        """
        rng = self._clients.env(name).rng
        async with self._application.admin(name) as admin:
            while not self._clients.is_over:
                await trio.sleep(rng.uniform(1, 4))
                if rng.random() < 0.5:
                    self._partition_count = min(self._partition_count + 1, MAX_PARTITIONS)
                    await self._level(admin, rng)
                else:
                    self._standby_count = rng.choice([0, 1, 2])
                    with suppress(KafkaError):
                        await self._configure(admin)

    async def _level(self, admin: Admin, rng: Random | None = None) -> None:
        """Give each topic as many partitions as are wanted, the source first. Topics that do not
        exist yet are left alone.
        """
        for topic in (self._application.source, REPARTITION, CHANGELOG):
            with suppress(KafkaError):
                described = (await admin.describe_topics([topic], timeout_ms=2_000))[topic]
                if described.partition_count < self._partition_count:
                    await admin.create_partitions({topic: self._partition_count}, timeout_ms=4_000)
            if rng is not None:
                await trio.sleep(rng.choice([0, 0.5]))

    async def _configure(self, admin: Admin) -> None:
        configs = {"streams.num.standby.replicas": str(self._standby_count)}
        await admin.alter_configs({ConfigResource.group(GROUP): configs}, timeout_ms=4_000)

    # Who looks on

    async def watch(self, name: str) -> None:
        """Ask again and again how the group is, and what it has committed."""
        rng = self._clients.env(name).rng
        async with self._application.admin(name) as admin:
            while not self._clients.is_drained:
                with suppress(KafkaError):
                    await self._application.describe(admin.cluster)
                    await self._application.fetch(admin.cluster, self._partitions())
                await trio.sleep(rng.uniform(0.2, 1))

    def _partitions(self) -> list[TopicPartition]:
        names = (self._application.source, REPARTITION)
        return [
            TopicPartition(name, index) for name in names for index in range(self._partition_count)
        ]

    async def drain(self) -> Violation | None:
        """Wait until the group is complete.

        Each task has its owner and its copies, and all living instances are members, and no others.
        """
        missing: str | None = "nothing was told"
        async with self._application.admin("streams-drainer") as admin:
            with trio.move_on_after(WHOLE_SECONDS):
                while missing is not None:
                    await trio.sleep(LOOK_SECONDS)
                    try:
                        await self._level(admin)
                        await self._configure(admin)
                        missing = self._what_is_missing(
                            await self._application.describe(admin.cluster)
                        )
                    except KafkaError as error:
                        missing = str(error)
                await self._application.fetch(admin.cluster, self._partitions())
        return (
            None
            if missing is None
            else Violation(
                "a calm group is complete", f"after {WHOLE_SECONDS:.0f} s of calm {missing}"
            )
        )

    def _what_is_missing(self, shown: Shown) -> str | None:
        if set(shown.members) != set(self._instances):
            return f"the members are {sorted(shown.members)}, and {sorted(self._instances)} live"
        for name, member in sorted(shown.members.items()):
            instance = self._instances[name]
            if instance.tasks != member.active or instance.standby != member.standby:
                return f"{name} runs {sorted(instance.tasks)} and {sorted(instance.standby)}, and is shown with {member}"
        tasks = [
            (subtopology, index)
            for subtopology in (READER, COUNTER)
            for index in range(self._partition_count)
        ]
        incomplete = missing_tasks(
            {name: member.active for name, member in shown.members.items()},
            {name: member.standby for name, member in shown.members.items()},
            wanted=frozenset(tasks),
            stateful=frozenset(task for task in tasks if task[0] == COUNTER),
            copy_count=min(self._standby_count, self._process_count - 1),
        )
        return incomplete or (None if shown.state == "Stable" else f"the group is {shown.state}")
