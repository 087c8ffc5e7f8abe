"""Moves partitions between log directories while they are written, read and compacted.

In the end it judges where they are.

Decides what moves, where to and when, also where that is a change of mind. Once all is calm every
partition is asked to live in one directory that is drawn for it, and has to come there within the
time that the run allows; then each is in one place alone, and no copy is left on the disk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import trio

from log_service.client import Admin, TopicPartitionReplica
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.storage import future_logs
from log_service.storage.file_names import FUTURE_DIRECTORY_SUFFIX, parse_directory_name
from tests.sim.disk import Directory, Disk
from tests.sim.node_checker import Violation
from tests.sim.node_clients import TIMEOUTS
from tests.sim.node_host import DATA_DIRECTORIES, NodeHost
from tests.sim.world import World

LOOK_SECONDS = 0.2


class Mover:
    """Moves ``partitions``, those of topics that may be gone among them, on one node, until
    ``is_over``.
    """

    def __init__(
        self,
        world: World,
        host: NodeHost,
        partitions: list[TopicPartition],
        env_of: Callable[[str], Env],
    ) -> None:
        self.world = world
        self.host = host
        self._env_of = env_of
        self.is_over = False
        self._partitions = partitions

    async def move(self, name: str) -> None:
        """Ask for one move after the other."""
        env = self._env_of(name)
        rng = env.rng
        async with Admin(self.host.address, env=env, **TIMEOUTS) as admin:
            while not self.is_over:
                partition = rng.choice(self._partitions)
                for _ in range(rng.choice([1, 1, 1, 2])):
                    try:
                        await self._ask(admin, {partition: rng.choice(DATA_DIRECTORIES).as_posix()})
                    except KafkaError as error:
                        self.world.log(name, error)
                await trio.sleep(rng.choice([0, 0.05, 0.5, 2]))

    async def settle(self, partitions: list[TopicPartition]) -> None:
        """Have each partition come to a directory that is drawn for it, and wait until it has."""
        rng = self._env_of("drawer").rng
        await self.bring({each: rng.choice(DATA_DIRECTORIES).as_posix() for each in partitions})

    async def bring(self, targets: dict[TopicPartition, str]) -> None:
        """Have each partition come to its directory, and wait until it has."""
        async with Admin(self.host.address, env=self._env_of("settler"), **TIMEOUTS) as admin:
            await self._ask(admin, targets)
            while await self._on_their_way(admin, targets):  # noqa: ASYNC110 - nothing tells that a move has ended
                await trio.sleep(LOOK_SECONDS)

    async def _ask(self, admin: Admin, targets: dict[TopicPartition, str]) -> None:
        wanted = {
            TopicPartitionReplica(topic, index, self.host.node_id): path
            for (topic, index), path in targets.items()
        }
        await admin.alter_replica_log_dirs(wanted, timeout_ms=8_000)

    async def _on_their_way(self, admin: Admin, targets: dict[TopicPartition, str]) -> bool:
        described = (await admin.describe_log_dirs(timeout_ms=8_000))[self.host.node_id]
        places = [
            (partition, path, replica.is_future)
            for path, directory in described.items()
            for partition, replica in directory.replicas.items()
            if partition in targets
        ]
        return sorted(places) != sorted(
            (partition, path, False) for partition, path in targets.items()
        )


@contextmanager
def copied_in_steps(chunk_bytes: int, quiet_bytes: int) -> Iterator[None]:
    """Have small logs be copied in as many steps as large ones.

    ``quiet_bytes`` is the size of the last step.
    """
    with mock.patch.multiple(future_logs, CHUNK_BYTES=chunk_bytes, QUIET_BYTES=quiet_bytes):
        yield


def check_places(disk: Disk, *, is_calm: bool) -> Iterator[Violation]:
    """Each partition is in one log directory; where ``is_calm`` no copy is left, either."""
    places: dict[str, str] = {}
    for path in DATA_DIRECTORIES:
        node = disk.find(path)
        for name in sorted(node.children) if isinstance(node, Directory) else ():
            if parse_directory_name(name) is not None:
                if places.setdefault(name, path.as_posix()) != path.as_posix():
                    yield Violation("one place", f"{name} is in {places[name]} and in {path}")
            elif is_calm and name.endswith(FUTURE_DIRECTORY_SUFFIX):
                yield Violation("one place", f"{path / name} is left of a move")
