"""Replication loses nothing acknowledged under faults that a seed draws.

There are deaths, lost power, cuts, elections, and nodes with late metadata. Nothing acknowledged is
lost.

The cluster's controller is honest and simple: it elects living members of the in-sync replicas
only. Each run ends with a calm in which all replicas have to get in sync and hold the same bytes.
"""

from random import Random

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.produce import ProduceResponse
from tests.helpers.replica_cluster import PORT, ReplicaCluster, ReplicaNode, tell_cluster, until
from tests.unit.broker.context import RawClient, batch, produce_request

STEPS = 30
PATIENCE_S = 3.0


class Faults:
    """The faults of a cluster while a client writes, and the acknowledged records."""

    def __init__(self, cluster: ReplicaCluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.acknowledged: dict[bytes, int] = {}
        self._sent = 0

    @property
    def registration(self) -> PartitionRegistration:
        """Return the controller's registration of the partition."""
        return self.cluster.image.topics.by_name["a"].partitions[0]

    def living(self) -> list[ReplicaNode]:
        return [node for node in self.cluster.nodes.values() if node.is_running]

    async def write(self, count: int) -> None:
        for _ in range(count):
            value = b"value-%05d" % self._sent
            self._sent += 1
            with trio.move_on_after(PATIENCE_S):
                await self._write_one(value)

    async def _write_one(self, value: bytes) -> None:
        leader = self.cluster.nodes.get(self.registration.leader)
        if leader is None or not leader.is_running:
            return
        try:
            client = RawClient(
                await self.cluster.world.client_env().network.connect(leader.host, PORT)
            )
            response: ProduceResponse = await client.ask(produce_request("a", batch(value)), 9)
        except (OSError, EOFError):
            return
        client.close()
        result = response.responses[0].partition_responses[0]
        if result.error_code == 0:
            self.acknowledged[value] = result.base_offset
        else:
            assert ErrorCode.of(result.error_code).is_retriable, ErrorCode.of(result.error_code)

    async def happen(self) -> None:
        """Let one thing happen."""
        what = self.rng.choice(
            [
                self.die,
                self.die,
                self.come_back,
                self.cut,
                self.heal,
                self.elect,
                self.turn_deaf,
                self.hear,
            ]
        )
        await what()
        await self.lead()

    async def die(self) -> None:
        living = self.living()
        if len(living) > 1:
            await self.rng.choice(living).kill(is_power_lost=self.rng.random() < 0.5)

    async def come_back(self) -> None:
        for number, node in self.cluster.nodes.items():
            if not node.is_running:
                node.is_deaf = False
                await self.cluster.start(number)
                return

    async def cut(self) -> None:
        one, other = self.rng.sample(sorted(node.host for node in self.cluster.nodes.values()), 2)
        self.cluster.world.network.cut(one, other)

    async def heal(self) -> None:
        self.cluster.world.network.heal()

    async def elect(self) -> None:
        candidates = [
            number for number in self.registration.isr if self.cluster.nodes[number].is_running
        ]
        if candidates:
            self.cluster.change(leader=self.rng.choice(candidates))

    async def turn_deaf(self) -> None:
        self.rng.choice(list(self.cluster.nodes.values())).is_deaf = True

    async def hear(self) -> None:
        for number, node in self.cluster.nodes.items():
            if node.is_deaf and node.is_running:
                self.cluster.tell(number)

    async def lead(self) -> None:
        """Elect where the leader is dead: a living member of the in-sync replicas, if there is one."""
        leader = self.cluster.nodes.get(self.registration.leader)
        if leader is None or not leader.is_running:
            candidates = [
                number for number in self.registration.isr if self.cluster.nodes[number].is_running
            ]
            self.cluster.change(leader=candidates[0] if candidates else -1)

    async def calm(self) -> None:
        """End all faults, and wait until every replica is in sync."""
        self.cluster.world.network.heal()
        for number, node in self.cluster.nodes.items():
            node.is_deaf = False
            if not node.is_running:
                await self.cluster.start(number)
            self.cluster.tell(number)
        await self.lead()
        await until(lambda: len(self.registration.isr) == 3, 60)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_acknowledged_is_lost_and_all_replicas_end_alike(seed: int) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        rng = Random(f"faults {seed}")
        cluster.world.network.weather = cluster.world.draw_weather()
        cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2", flush_messages="1")
        faults = Faults(cluster, rng)
        for _ in range(STEPS):
            await faults.write(rng.randint(0, 4))
            await faults.happen()
            await trio.sleep(rng.choice([0, 0.01, 0.3, 3]))
        await faults.calm()
        await faults.write(3)
        await until(
            lambda: len({node.log().log_end_offset for node in cluster.nodes.values()}) == 1, 30
        )
        contents = [node.bytes_of() for node in cluster.nodes.values()]
        assert contents[0] == contents[1] == contents[2], (
            f"seed {seed}: {[len(content) for content in contents]}"
        )
        values = cluster.node(1).values()
        assert len(faults.acknowledged) >= 3
        lost = [value for value, offset in faults.acknowledged.items() if values[offset] != value]
        assert lost == [], f"seed {seed}"

    tell_cluster(story, seed=seed, replica_lag_time_max_ms="2000")
