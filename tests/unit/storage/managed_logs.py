"""A node of logs alone: directories in memory, and a log manager over them."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import trio

from log_service.common.env import NodeEnv
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig, LogManagerConfig
from log_service.storage.log_manager import LogManager
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork
from tests.unit.storage.context import NOW_MS, SettableClock, batch, validated

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
ID_A, ID_B = TopicId(UUID(int=1)), TopicId(UUID(int=2))
FIRST, SECOND = Path("/first"), Path("/second")
SIZE = len(batch(1))


class Node:
    """A log manager over a memory disk, started and stopped by a test."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        *,
        dirs: tuple[Path, ...] = (FIRST,),
        node_id: int = 1,
        cluster_id: str = "c",
    ) -> None:
        self.clock = SettableClock()
        self.files = files or MemoryFiles(rng=Random(3), clock=self.clock)
        env = NodeEnv(
            clock=self.clock,
            rng=Random(f"5 {dirs}"),
            network=MemoryNetwork(Random(4)).host("node"),
            files=self.files,
        )
        config = LogManagerConfig(log_dirs=dirs)
        self.config = LogConfig(segment_bytes=2 * SIZE)
        self.manager = LogManager(env, config, self.config, node_id=node_id, cluster_id=cluster_id)

    def append(self, topic_partition: TopicPartition, count: int = 1) -> None:
        for _ in range(count):
            self.manager.logs[topic_partition].append_as_leader(
                validated(batch(1)), leader_epoch=0, now_ms=NOW_MS
            )


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    trio.run(main)
