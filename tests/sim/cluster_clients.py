"""The clients of a simulated cluster: those of a node, and those who move partitions and elect leaders while faults strike."""

from random import Random
from typing import Any

from log_service.client import Admin, Consumer
from log_service.client.admin.values import ElectionType
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from tests.sim.access_users import login_of
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.network import MemoryHost
from tests.sim.node_clients import TIMEOUTS, Clients
from tests.sim.node_history import History
from tests.sim.world import World


class ClusterClients(Clients):
    """The cast of one run at a cluster."""

    def __init__(self, world: World, plan: ClusterPlan, history: History, bootstrap: str, *, place: str = "") -> None:
        super().__init__(world, plan, history, bootstrap, place=place)
        self.racks = plan.client_racks
        self.plan: ClusterPlan = plan
        self.is_voter_taken_out = False
        """Whether an operator has asked to take a voter out, and it is not back yet."""
        self.broker_ids = [node.config.node_id for node in plan.brokers]

    def settings(self, env: Env) -> dict[str, Any]:
        """What every client is told; where users are, each client is one."""
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
