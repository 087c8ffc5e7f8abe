"""A node's metadata log over a disk in memory: started, stopped, crashed."""

import errno
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import trio

from log_service.common.env import NodeEnv
from log_service.common.types import LeaderEpoch, NodeId
from log_service.config.views import MetadataLogConfig
from log_service.metadata.features import first_feature_records
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.batches import MetadataBatch
from log_service.raft.driver import RaftDriver
from log_service.raft.format import FormatPlan, NodeIdentity, format_directories
from log_service.raft.snapshots import Snapshot
from log_service.raft.voters import VoterEndpoint
from tests.sim.clock import EPOCH_MS, VirtualClock
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork

DIRECTORY = Path("/node/log")
METADATA = DIRECTORY / "__cluster_metadata-0"
NODE = NodeId(1)


class Replayed:
    """A listener that keeps what it was handed."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.batches: list[MetadataBatch] = []
        self.group_sizes: list[int] = []
        self.leaders: list[tuple[int, int]] = []

    def on_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        self.group_sizes.append(len(batches))
        self.batches += batches

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        self.leaders.append((leader_id, epoch))

    @property
    def records(self) -> list[MetadataRecord]:
        return [record for batch in self.batches for record in batch.records]


class FailingFiles(MemoryFiles):
    """A disk in memory of which one operation fails later than the next time."""

    later: tuple[str, int] | None = None

    def fail_at(self, operation: str, passed_count: int) -> None:
        """Let ``operation`` fail once, after it went well ``passed_count`` times."""
        self.later = (operation, passed_count)

    def check(self, operation: str, path: Path) -> None:
        if self.later is not None and self.later[0] == operation:
            passed_count = self.later[1]
            self.later = (operation, passed_count - 1) if passed_count else None
            if passed_count == 0:
                raise OSError(errno.EIO, f"injected failure of {operation}", str(path))
        super().check(operation, path)


class Machine:
    """One disk and the processes that use it, one after the other."""

    def __init__(self, config: MetadataLogConfig | None = None) -> None:
        self.files = FailingFiles(rng=Random(7))
        self.rng = Random(7)
        self.config = config or MetadataLogConfig()

    def env(self) -> NodeEnv:
        network = MemoryNetwork(Random(0)).host("node")
        return NodeEnv(clock=VirtualClock(), rng=self.rng, network=network, files=self.files)

    def plan(
        self,
        *,
        node_id: int = 1,
        cluster_id: str | None = None,
        records: Iterable[MetadataRecord] | None = None,
    ) -> FormatPlan:
        return FormatPlan(
            node_id=NodeId(node_id),
            cluster_id=cluster_id,
            only_voter_at=VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),
            bootstrap_records=list(first_feature_records() if records is None else records),
            new_bits=self.rng.getrandbits,
            now_ms=EPOCH_MS,
        )

    def format(self) -> NodeIdentity:
        return format_directories(self.files, [DIRECTORY], DIRECTORY, self.plan())

    @asynccontextmanager
    async def started(
        self, *, is_running: bool = True
    ) -> AsyncIterator[tuple[RaftDriver, Replayed]]:
        """A process whose metadata log is open; leaving the block kills it without closing
        anything.
        """
        raft, replayed = (
            RaftDriver(self.env(), DIRECTORY, node_id=NODE, config=self.config),
            Replayed(),
        )
        raft.subscribe(replayed)
        await raft.open()
        async with trio.open_nursery() as nursery:
            if is_running:
                await nursery.start(raft.run)
            yield raft, replayed
            nursery.cancel_scope.cancel()


async def commit(raft: RaftDriver, *records: MetadataRecord) -> None:
    """Append records as one batch, and wait until they are committed."""
    await until_committed(raft, raft.append(records))


async def until_committed(raft: RaftDriver, end_offset: int) -> None:
    """Wait until all that this leader has appended up to an offset is committed."""
    epoch = raft.epoch
    while raft.high_watermark < end_offset:
        assert (raft.epoch, raft.is_leader) == (epoch, True), "the epoch is over"
        await trio.sleep(0.001)
