"""A disk fails while a node starts, and the error names its log directory.

That holds for any moment, and whatever else happens then.
"""

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.broker.main import ExitCode, serve
from log_service.common.errors import StorageError
from log_service.storage.meta_properties import read_meta_properties
from tests.sim import World, sim_run
from tests.unit.broker.context import (
    DATA,
    HOST,
    PORT,
    RawClient,
    Story,
    batch,
    configuration,
    running,
    values_of,
)

TURN_COUNT = 20
WRITES = {
    "append",
    "write",
    "sync",
    "truncate",
    "rename",
    "remove",
    "sync_directory",
    "open",
    "make_directory",
}
READS = {"read"}
APART = {"metadata.log.dir": "/data/metadata"}
OTHER = {"log.dirs": f"{DATA},/data/other"}


class FailingIn:
    """Fails a disk in one turn of the scheduler.

    It counts from when the node began to hold its rooms, and stops once the node has started.
    """

    def __init__(self, broker: Broker, turn: int, fail: Callable[[Any], None]) -> None:
        self.broker: Any = broker
        self.turn = turn
        self.fail = fail
        self.is_started = False

    async def run(self) -> None:
        while self.broker.open_rooms is None:
            await trio.lowlevel.checkpoint()
        for _ in range(self.turn):
            await trio.lowlevel.checkpoint()
        self.fail(self.broker)

    def started(self, value: object = None) -> None:
        self.is_started = True


@asynccontextmanager
async def on_failing_disks(
    world: World, properties: dict[str, str], fail: Callable[[Any], None]
) -> AsyncIterator[Story]:
    """Run a node on disks to which ``fail`` did something.

    The disks are whole again once it has stopped.
    """
    config, texts = configuration(properties)
    env = world.node_env(HOST)
    files: Any = env.files
    fail(files)
    broker = Broker(env, config, static_texts=texts)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        yield Story(world, broker, RawClient(await world.client_env().network.connect(HOST, PORT)))
        await broker.stop()
    files.disk.failed = None


async def write_on_both(node: Story) -> int:
    """Write a record to each partition of a topic on two disks.

    Return the partition that is not beside the metadata.
    """
    await node.create_topic("a", 2)
    for index in range(2):
        await node.produce("a", batch(b"one"), partition=index)
    return next(
        each.topic_partition.partition
        for each in node.broker.replicas.partitions.values()
        if each.served_log().home.path != DATA
    )


def fail_data(broker: Any) -> None:
    broker.foundation.logs.directories[0].fail(OSError(errno.EIO, "Input/output error"))


def fail_metadata(broker: Any) -> None:
    broker.raft.log.log.home.fail(OSError(errno.EIO, "Input/output error"))
    broker.raft._appended.set()  # as an append that finds out does


@pytest.mark.parametrize("fail", [fail_data, fail_metadata])
def test_a_disk_that_fails_in_any_turn_of_a_start_is_what_is_told(
    fail: Callable[[Any], None],
) -> None:
    """The error names the disk that failed in any turn of a start.

    The rooms' nursery closed a turn before the start was cancelled, and the error was only
    ``Nursery is closed to new arrivals``.
    """
    started_count = 0

    async def main(world: World) -> None:
        nonlocal started_count
        config, texts = configuration({})
        broker = Broker(world.node_env(HOST), config, static_texts=texts)
        failing = FailingIn(broker, world.seed // 5, fail)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing.run)
            with (
                pytest.raises(StorageError, match=r"/data/kafka.*Input/output error"),
                trio.fail_after(60),
            ):
                await broker.run(task_status=failing)
        started_count += failing.is_started

    for seed in range(TURN_COUNT * 5):
        sim_run(seed, main)
    assert started_count < TURN_COUNT


def start_with_failure(
    world: World,
    at: int,
    kinds: set[str],
    where: str,
    properties: dict[str, str],
    *,
    is_locked: bool = True,
) -> tuple[Broker, list[str]]:
    """Start a node whose disk fails for good in one operation.

    It is the ``at``-th operation of ``kinds`` on paths that begin with ``where``.

    Without ``is_locked`` it counts from when the node locks the directory.
    """
    config, texts = configuration(properties)
    env = world.node_env(HOST)
    files: Any = env.files
    seen: list[str] = []

    def on_operation(operation: str, path: Path) -> None:
        nonlocal is_locked
        is_locked = is_locked or path == Path(where) / ".lock"
        if is_locked and operation in kinds and str(path).startswith(where):
            seen.append(str(path))
            if len(seen) >= at:
                raise OSError(errno.EIO, "Input/output error")

    files.on_operation = on_operation
    return Broker(env, config, static_texts=texts), seen


@pytest.mark.parametrize("is_fresh", [True, False])
@pytest.mark.parametrize("kinds", [WRITES, READS], ids=["writes", "reads"])
@pytest.mark.parametrize(
    ("where", "properties"),
    [("/data/kafka", {}), ("/data/kafka", APART), ("/data/metadata", APART)],
    ids=["one", "logs", "metadata"],
)
def test_whatever_operation_of_a_start_fails_the_directory_is_named(
    where: str, kinds: set[str], properties: dict[str, str], *, is_fresh: bool
) -> None:
    failure_count = 0

    async def main(world: World) -> None:
        nonlocal failure_count
        if not is_fresh:
            async with running(world, **properties) as node:
                await node.create_topic("a")
                await node.produce("a", batch(b"one"))
        broker, seen = start_with_failure(world, failure_count + 1, kinds, where, properties)
        with trio.move_on_after(1):
            try:
                await broker.run()
            except StorageError as error:
                assert where in str(error), error  # noqa: PT017 - a node that started is none
                failure_count += 1
                return
        assert len(seen) <= failure_count, "it went on without its disk"
        failure_count = -failure_count

    for _ in range(200):
        sim_run(1, main)
        if failure_count < 0:
            break
    assert failure_count < -3


def leave_more(files: Any, found: Path) -> None:
    """Leave more in a directory than the logs of its last run.

    It gets a stray, a log that another directory has, and both logs of a move.
    """
    for name, source in (("gone-0", found / "a-0"), ("a-0", found / "a-0"), ("a-1", found / "a-1")):
        target = Path("/data/other") / name
        files.make_directory(target)
        for entry in files.list_directory(source):
            files.write_atomically(target / entry, files.read_bytes(source / entry))
    gone = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ\n"
    files.write_atomically(Path("/data/other/gone-0/partition.metadata"), gone)
    files.write_atomically(Path("/data/other/a-1/moved-here"), b"")


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("kinds", [WRITES, {*READS, "stat"}], ids=["writes", "reads"])
def test_whatever_operation_of_a_start_fails_a_disk_without_metadata_goes_offline_alone(
    kinds: set[str], *, is_killed: bool
) -> None:
    """A disk that turned read-only after its logs were loaded stopped the start."""
    failure_count = 0

    async def main(world: World) -> None:
        nonlocal failure_count
        async with running(world, **{"log.dirs": f"{DATA}"}) as node:
            await node.create_topic("a", 3)
            for index in range(3):
                await node.produce("a", batch(b"one"), partition=index)
        async with running(world, **OTHER):
            pass
        files: Any = world.node_env(HOST).files
        leave_more(files, DATA)
        if is_killed:
            files.remove(Path("/data/other/.kafka_cleanshutdown"))
        broker, seen = start_with_failure(
            world, failure_count + 1, kinds, "/data/other", OTHER, is_locked=False
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            client = RawClient(await world.client_env().network.connect(HOST, PORT))
            node = Story(world, broker, client)
            assert (await node.produce("a", batch(b"two"), partition=2)).error_code == 0
            await broker.stop()
        async with running(world, **OTHER) as node:
            for index, kept in enumerate(([b"one"], [b"one"], [b"one", b"two"])):
                assert values_of((await node.fetch("a", 0, partition=index)).records) == kept
        failure_count = failure_count + 1 if len(seen) > failure_count else -failure_count

    for _ in range(400):
        sim_run(1, main)
        if failure_count < 0:
            break
    assert failure_count < -3


@pytest.mark.parametrize("operation", ["read", "remove"])
def test_a_disk_that_failed_once_while_the_logs_were_loaded_is_not_taken_for_metadata(
    operation: str,
) -> None:
    """The directory was offline for its logs, and went on with its metadata."""

    async def main(world: World) -> None:
        async with running(world, **OTHER):
            pass
        config, texts = configuration(OTHER)
        env = world.node_env(HOST)
        files: Any = env.files
        files.fail_next(operation, containing=f"{DATA}/.kafka_cleanshutdown")
        with (
            pytest.raises(StorageError, match="log directory /data/kafka failed"),
            trio.fail_after(60),
        ):
            await Broker(env, config, static_texts=texts).run()

    sim_run(1, main)


@pytest.mark.parametrize(
    "checkpoint", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_what_lies_on_a_disk_that_failed_at_the_start_is_not_begun_anew(checkpoint: str) -> None:
    """Partitions on a disk that failed at the start are not created again.

    They were created on the other disk, empty, and the next start refused to choose between the
    two.
    """

    async def main(world: World) -> None:
        async with running(world, **OTHER) as node:
            lost = await write_on_both(node)
        fails_once: Callable[[Any], None] = lambda files: files.fail_next(  # noqa: E731
            "read", containing=f"/data/other/{checkpoint}"
        )
        async with on_failing_disks(world, OTHER, fails_once) as node:
            assert node.broker.replicas.partitions["a", lost].is_offline
            assert (await node.produce("a", batch(b"two"), partition=1 - lost)).error_code == 0
            await node.create_topic("b")
            assert (await node.produce("b", batch(b"new"))).error_code == 0
        async with running(world, **OTHER) as node:
            assert values_of((await node.fetch("a", 0, partition=lost)).records) == [b"one"]

    sim_run(1, main)


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS, errno.ENOTCONN])
def test_a_node_starts_without_a_disk_that_fails_and_goes_by_the_others(error: int) -> None:
    """A node starts without a disk that fails.

    The start was refused again and again because one meta.properties could not be read. All
    other data of the node could be served.
    """

    async def main(world: World) -> None:
        async with running(world, **OTHER) as node:
            lost = await write_on_both(node)
            all_ids = {*node.broker.foundation.logs.directory_ids.values()}
            lost_id = node.broker.foundation.logs.directory_ids[Path("/data/other")]

        def fail(files: Any) -> None:
            if error == errno.EIO:
                files.disk.failed = Path("/data/other")
            else:
                files.fail_next("open", error=error, containing="/data/other/.lock")

        async with on_failing_disks(world, OTHER, fail) as node:
            assert node.broker.replicas.partitions["a", lost].is_offline
            assert {*node.broker.image.cluster.brokers[1].log_dirs} == all_ids - {lost_id}  # type: ignore[index]
            assert (await node.produce("a", batch(b"two"), partition=1 - lost)).error_code == 0
            assert (await node.produce("a", batch(b"two"), partition=lost)).error_code != 0
            await node.create_topic("b", 2)
            for other in range(2):
                assert (await node.produce("b", batch(b"new"), partition=other)).error_code == 0
        async with running(world, **OTHER) as node:
            assert values_of((await node.fetch("a", 0, partition=lost)).records) == [b"one"]
            assert values_of((await node.fetch("b", 0, partition=1)).records) == [b"new"]

    sim_run(1, main)


@pytest.mark.parametrize("metadata", ["/data/metadata", "/data/two"])
def test_a_node_starts_without_the_first_of_its_disks_where_another_has_its_metadata(
    metadata: str,
) -> None:
    """A node starts without its first disk if another has its metadata.

    It was refused. The node did not know of another disk yet, and took the first one for the
    last.
    """
    files_of = {"log.dirs": "/data/one,/data/two", "metadata.log.dir": metadata}

    async def main(world: World) -> None:
        async with running(world, **files_of):
            pass
        async with on_failing_disks(
            world, files_of, lambda files: setattr(files.disk, "failed", Path("/data/one"))
        ) as node:
            assert [
                str(each.path)
                for each in node.broker.foundation.logs.directories
                if each.is_offline
            ] == ["/data/one"]
            await node.create_topic("a", 1)
            assert (await node.produce("a", batch(b"one"))).error_code == 0

    sim_run(1, main)


@pytest.mark.parametrize("is_kept", [False, True])
def test_no_cluster_begins_beside_a_disk_that_fails_and_may_be_of_one(is_kept: bool) -> None:
    """No cluster begins beside a failing disk that may belong to one.

    One disk fails, and the disk of the metadata is new. A cluster began, or topics on the first
    disk were strays later.
    """
    files_of = {"log.dirs": "/data/one,/data/two", "metadata.log.dir": "/data/metadata"}

    async def main(world: World) -> None:
        async with running(world, **files_of) as node:
            await node.create_topic("a", 1)
            await node.produce("a", batch(b"one"))
            served = node.broker.replicas.partitions["a", 0].served_log()
            holding = served.home.path
            cluster_id = node.broker.foundation.identity.cluster_id
        config, texts = configuration(files_of)
        env = world.node_env(HOST)
        files: Any = env.files
        files.remove_tree(Path("/data/metadata"))
        if not is_kept:
            for path in {Path("/data/one"), Path("/data/two")} - {holding}:
                files.remove_tree(path)
        files.disk.failed = holding
        with (
            pytest.raises(StorageError, match=f"{holding} cannot be used.*start again"),
            trio.fail_after(60),
        ):
            await Broker(env, config, static_texts=texts).run()
        files.disk.failed = None
        owner = read_meta_properties(files, holding)
        assert owner is not None
        assert owner.cluster_id == cluster_id
        assert not files.exists(Path("/data/metadata/meta.properties"))

    sim_run(1, main)


def test_a_node_does_not_start_without_the_disk_that_has_its_metadata() -> None:
    async def main(world: World) -> None:
        async with running(world, **OTHER):
            pass
        config, texts = configuration(OTHER)
        env = world.node_env(HOST)
        files: Any = env.files
        files.disk.failed = DATA
        with (
            pytest.raises(StorageError, match=rf"log directory {DATA} cannot be used: \[Errno 5\]"),
            trio.fail_after(60),
        ):
            await Broker(env, config, static_texts=texts).run()
        files.disk.failed = None

    sim_run(1, main)


def test_foreign_logs_on_a_disk_that_fails_for_a_moment_are_not_taken() -> None:
    """A node does not take foreign logs on a disk that fails for a moment.

    The disk failed at the check of its owner and worked when the node locked it. The logs
    became the node's, and strays.
    """

    async def main(world: World) -> None:
        async with running(world, **OTHER):
            pass
        config, texts = configuration(OTHER)
        env = world.node_env(HOST)
        files: Any = env.files
        files.remove(Path("/data/other/meta.properties"))
        files.make_directory(Path("/data/other/theirs-0"))
        files.write_atomically(Path("/data/other/theirs-0/00000000000000000000.log"), b"")
        files.fail_next("read", containing="/data/other/meta.properties")
        with (
            pytest.raises(StorageError, match="/data/other holds logs such as theirs-0"),
            trio.fail_after(60),
        ):
            await Broker(env, config, static_texts=texts).run()
        assert not files.exists(Path("/data/other/meta.properties"))

    sim_run(1, main)


def test_a_directory_that_may_not_be_read_is_no_listener_that_cannot_be_bound(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    # Whoever runs this may be root, whom rights do not stop.
    (tmp_path / "data" / "meta.properties").symlink_to("meta.properties")
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=1\nlog.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    assert serve(path) == ExitCode.BAD_LOG_DIRECTORY
    assert f"log directory {tmp_path}/data cannot be used" in caplog.text
