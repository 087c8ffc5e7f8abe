"""The operator of a simulated cluster keeps its quorum whole.

It adds controllers that are no voters, and removes voters that are gone.

As a client it asks who votes, and compares that with which directories the controllers have. One
who also changes voters takes some out while faults strike, and puts them back.
"""

from random import Random
from uuid import UUID

import trio

from log_service.client import Admin
from log_service.client.admin.values import RaftVoter
from log_service.common.errors import KafkaError
from log_service.raft.leader import Leader
from log_service.storage.meta_properties import read_meta_properties
from tests.sim.cluster_clients import ClusterClients
from tests.sim.cluster_plan import CONTROLLER_PORT
from tests.sim.files import MemoryFiles
from tests.sim.node_host import NodeHost


class Operator:
    """One operator; ``hosts`` are the machines of the controllers. ``is_restless``: takes voters
    out where nothing makes it.
    """

    def __init__(
        self, clients: ClusterClients, hosts: list[NodeHost], *, is_restless: bool
    ) -> None:
        self._clients = clients
        self._hosts = hosts
        self._is_restless = is_restless

    async def work(self, name: str) -> None:
        """Keep the quorum whole until everything was read."""
        env = self._clients.env(name)
        async with Admin(self._clients.bootstrap, env=env, **self._clients.settings(env)) as admin:
            while not self._clients.is_drained:
                if self._clients.is_over:
                    await trio.sleep(0.5)
                else:
                    await self._clients.rest(env.rng.uniform(0.3, 3))
                try:
                    await self._look_after(admin, env.rng)
                except KafkaError as error:
                    self._clients.world.log(name, error)

    async def _look_after(self, admin: Admin, rng: Random) -> None:
        quorum = await admin.describe_metadata_quorum(timeout_ms=5_000)
        voters = [(voter.node_id, voter.directory_id) for voter in quorum.voters]
        present = own_keys(self._hosts)
        for key in voters:
            if present.get(key[0], key[1]) != key[1]:
                self._clients.world.log("remove voter of a lost disk", key)
                await admin.remove_raft_voter(*key)
                return
        absent = [key for key in present.items() if key not in voters]
        if len(voters) == len(self._hosts):
            self._clients.is_voter_taken_out = False
        if absent:
            node_id, directory_id = rng.choice(absent)
            self._clients.world.log("add voter", node_id, directory_id)
            host = next(host for host in self._hosts if host.node_id == node_id)
            voter = RaftVoter(
                node_id=node_id,
                directory_id=directory_id,
                endpoints={"CONTROLLER": (host.name, CONTROLLER_PORT)},
            )
            await admin.add_raft_voter(voter, timeout_ms=5_000)
        elif (
            self._is_restless
            and not self._clients.is_over
            and self._may_take_out(voters)
            and rng.random() < 0.6
        ):
            key = rng.choice(voters)
            self._clients.world.log("remove voter", key)
            self._clients.is_voter_taken_out = True
            await admin.remove_raft_voter(*key)

    def _may_take_out(self, voters: list[tuple[int, UUID]]) -> bool:
        """Whether the others can decide without one voter.

        They cannot if another has lost its disk, and is dead for the quorum.
        """
        return len(voters) > 1 and set(voters) <= {
            (host.node_id, formatted_id(host)) for host in self._hosts
        }


def formatted_id(host: NodeHost) -> UUID | None:
    """Return the directory id that the disk of a controller has, whether it runs or not."""
    properties = read_meta_properties(MemoryFiles(host.disk), host.config.metadata_log_dir)
    return None if properties is None else properties.directory_id


def own_keys(hosts: list[NodeHost]) -> dict[int, UUID]:
    """Return the directory ids of the controllers that run, as their ``meta.properties`` say, by
    node id.
    """
    found: dict[int, UUID] = {}
    for host in hosts:
        core = (
            host.current.broker.open_raft.core
            if host.is_running and host.current and host.current.broker.open_raft
            else None
        )
        if core is not None:
            found[host.node_id] = core.own.directory_id
    return found


def missing_voter(hosts: list[NodeHost]) -> str | None:
    """Say which controller is no voter, or which voter no controller; None where the quorum is
    whole.
    """
    present = set(own_keys(hosts).items())
    for host in hosts:
        core = (
            host.current.broker.open_raft.core
            if host.is_running and host.current and host.current.broker.open_raft
            else None
        )
        if core is not None and isinstance(core.role, Leader):
            voters = {(voter.node_id, voter.directory_id) for voter in core.voters.voters}
            if voters == present and core.high_watermark > core.replica.history.latest.offset:
                return None
    return f"the voters are not {sorted(present)}"
