"""Logs that are looked after by a log manager, on virtual time."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import trio
from trio.testing import MockClock

from log_service.common.env import NodeEnv
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig, LogManagerConfig
from log_service.storage.log_manager import LogManager
from tests.sim.clock import VirtualClock
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork
from tests.unit.storage.context import batch, validated

A = TopicPartition("a", 0)
ROOT = Path("/logs")
SIZE = len(batch(1))


class Story:
    """A running manager with one log, on virtual time."""

    def __init__(self, manager: LogManager, files: MemoryFiles) -> None:
        self.manager = manager
        self.files = files
        self.log = manager.logs[A]

    def append(self, content: bytearray | None = None) -> None:
        now_ms = self.manager.env.clock.wall_ms()
        self.log.append_as_leader(
            validated(content or batch(1, timestamp=now_ms)), leader_epoch=0, now_ms=now_ms
        )


def play(
    story: Callable[[Story], Awaitable[None]], config: LogConfig | None = None, **intervals: int
) -> None:
    async def main() -> None:
        clock = VirtualClock()
        files = MemoryFiles(rng=Random(1), clock=clock)
        env = NodeEnv(
            clock=clock, rng=Random(2), network=MemoryNetwork(Random(4)).host("node"), files=files
        )
        settings = replace(
            LogManagerConfig(log_dirs=(ROOT,), initial_task_delay_ms=1_000),
            **intervals,  # type: ignore[arg-type]
        )
        manager = LogManager(env, settings, LogConfig())
        await manager.load()
        manager.create_log(A, TopicId(UUID(int=1)), config or LogConfig())
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: manager.run(task_status=task_status))
            await story(Story(manager, files))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
