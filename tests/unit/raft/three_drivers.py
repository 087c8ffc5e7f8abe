"""Three drivers of one quorum, over a network in memory."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import trio

from log_service.common.types import NodeId
from log_service.config.views import QuorumConfig
from log_service.protocol.codec import decode, encode
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.schema import Message
from log_service.protocol.stored.metadata_records import ConfigRecord, MetadataRecord
from log_service.raft.driver import RaftDriver
from log_service.raft.log_view import BOOTSTRAP_SNAPSHOT
from log_service.raft.messages import Peer, WireMessage
from log_service.raft.snapshots import encode_snapshot
from log_service.raft.voters import Voter, VoterEndpoint
from log_service.storage.durable_directory import make_durable_directory
from log_service.storage.meta_properties import MetaProperties, write_meta_properties
from tests.sim.disk import Crashed
from tests.sim.world import World
from tests.unit.raft.node import Replayed, commit

DIRECTORY = Path("/node/log")
METADATA = DIRECTORY / "__cluster_metadata-0"
LISTENER = "CONTROLLER"


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=value)


def voters() -> tuple[Voter, ...]:
    return tuple(
        Voter(
            node_id=NodeId(each),
            directory_id=UUID(int=1_000 + each),
            endpoints=(VoterEndpoint(LISTENER, f"node{each}", 9093),),
        )
        for each in (1, 2, 3)
    )


def over_the_wire(message: WireMessage) -> WireMessage:
    """Return what a peer reads of a message: its bytes, in its newest version."""
    cls: type[Message] = type(message)
    version = int(cls.SCHEMA.valid.partition("-")[2] or cls.SCHEMA.valid)
    found, _ = decode(cls, version, encode(message, version))
    return found


class Network:
    """Carries messages to the nodes that run, through their bytes."""

    def __init__(self) -> None:
        self.drivers: dict[str, RaftDriver] = {}
        self.silent: set[str] = set()
        """Nodes to and from which nothing comes through, and nothing is refused."""
        self.spoiled: set[str] = set()
        """Nodes that get records with a byte that was changed on the way."""
        self.sent: list[tuple[float, str, str]] = []
        """When a message was sent, from which node to which."""
        self.received: list[tuple[str, WireMessage]] = []
        """Responses, and which node got each."""
        self.given_up_after_s: list[float] = []
        """How long each message to or from a silent node was waited for."""

    async def come_through(self, *names: str) -> None:
        """Return at once, unless one of the nodes is silent: then never."""
        began = trio.current_time()
        if self.silent.intersection(names):
            try:
                await trio.sleep_forever()
            finally:
                self.given_up_after_s.append(trio.current_time() - began)

    def arrived(self, name: str, response: WireMessage) -> WireMessage:
        """Return what a node gets of a response."""
        found = over_the_wire(response)
        if name in self.spoiled and isinstance(found, FetchResponse):
            for told in found.responses[0].partitions if found.responses else ():
                if told.records:
                    told.records = bytes(told.records)[:-1] + b"?"  # type: ignore[call-overload]  # bytes here
        self.received.append((name, found))
        return found

    def of(self, name: str) -> "Line":
        return Line(self, name)


class Line:
    """The way of one node to the others."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, name
        self.refusing_ids: tuple[NodeId, ...] = ()

    def note_request(self, node_id: NodeId) -> None:
        """Every node that is there is asked again."""

    async def send(self, peer: Peer, request: WireMessage) -> WireMessage:
        self.network.sent.append((trio.current_time(), self.name, peer.host))
        await self.network.come_through(self.name, peer.host)
        await trio.sleep(0.001)
        if self.name not in self.network.drivers or peer.host not in self.network.drivers:
            raise ConnectionRefusedError(peer.host)
        try:
            response = await self.network.drivers[peer.host].handle(
                over_the_wire(request), listener_name=LISTENER
            )
        except Crashed as crashed:
            raise ConnectionResetError(peer.host) from crashed
        await self.network.come_through(self.name, peer.host)
        await trio.sleep(0.001)
        return self.network.arrived(self.name, response)


class Quorum:
    """Three nodes of one world."""

    def __init__(
        self, world: World, nursery: trio.Nursery, settings: QuorumConfig | None = None
    ) -> None:
        self.world, self.nursery, self.settings = world, nursery, settings
        self.network = Network()
        self.lines: dict[int, Line] = {}
        self.replayed: dict[int, Replayed] = {}
        self.scopes: dict[int, trio.CancelScope] = {}

    def driver(self, node_id: int) -> RaftDriver:
        return self.network.drivers[f"node{node_id}"]

    def format(self, node_id: int) -> None:
        """Format a disk as ``kafka-storage format --initial-controllers`` does."""
        files = self.world.node_env(f"node{node_id}").files
        make_durable_directory(files, METADATA)
        batches = encode_snapshot(
            (), epoch=0, timestamp_ms=0, last_contained_timestamp_ms=0, voters=voters()
        )
        files.write_atomically(METADATA / BOOTSTRAP_SNAPSHOT.file_name, b"".join(batches))
        own = MetaProperties(
            cluster_id="cluster", node_id=node_id, directory_id=UUID(int=1_000 + node_id)
        )
        write_meta_properties(files, DIRECTORY, own)

    async def start(self, node_id: int) -> None:
        await self.nursery.start(self._run, node_id)

    async def _run(self, node_id: int, *, task_status: trio.TaskStatus[None]) -> None:
        name = f"node{node_id}"
        with trio.CancelScope() as self.scopes[node_id]:
            self.lines[node_id] = self.network.of(name)
            driver = RaftDriver(
                self.world.node_env(name),
                DIRECTORY,
                node_id=NodeId(node_id),
                quorum=self.settings,
                transport=self.lines[node_id],
                endpoints=(VoterEndpoint(LISTENER, name, 9093),),
            )
            self.replayed[node_id] = Replayed()
            driver.subscribe(self.replayed[node_id])
            await driver.open()
            self.network.drivers[name] = driver
            async with trio.open_nursery() as nursery:
                await nursery.start(driver.run)
                task_status.started()

    def kill(self, node_id: int) -> None:
        """End a node as a loss of power does."""
        self.world.crash(f"node{node_id}")
        del self.network.drivers[f"node{node_id}"]
        self.scopes[node_id].cancel()

    async def stop(self, node_id: int) -> None:
        """End a node in order: what it wrote is durable, and it has taken note of that."""
        driver = self.network.drivers.pop(f"node{node_id}")
        self.scopes[node_id].cancel()
        await driver.close()

    async def leader(self) -> int:
        """Wait until a node leads, and return its id."""
        while True:
            for name, driver in self.network.drivers.items():
                if driver.is_leader:
                    return int(name.removeprefix("node"))
            await trio.sleep(0.05)

    def records(self, node_id: int) -> list[MetadataRecord]:
        snapshots = self.replayed[node_id].snapshots
        return [*(snapshots[-1].records if snapshots else ()), *self.replayed[node_id].records]


@asynccontextmanager
async def three_nodes(world: World, settings: QuorumConfig | None = None) -> AsyncIterator[Quorum]:
    async with trio.open_nursery() as nursery:
        quorum = Quorum(world, nursery, settings)
        for node_id in (1, 2, 3):
            quorum.format(node_id)
            await quorum.start(node_id)
        yield quorum
        nursery.cancel_scope.cancel()


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - several nodes make it so
            await trio.sleep(0.05)


async def append(quorum: Quorum, node_id: int, values: Sequence[str]) -> None:
    driver = quorum.driver(node_id)
    for value in values:
        await commit(driver, config(value))
