"""Keys about the cleaner, the disk, sockets and memory take effect.

They are set in the file and, where that is possible, while the node runs.
"""

import socket
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from log_service.broker.env import real_env
from log_service.common.types import TopicPartition
from log_service.config.server import parse_server_properties
from log_service.network.sockets import SocketNetwork
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.produce import ProduceResponse
from log_service.storage.directory_loader import DirectoryLoader
from log_service.storage.recovery import OpenedFrom
from tests.helpers.metrics_page import fetch
from tests.sim import World, sim_run
from tests.unit.broker.configured_brokers import configured
from tests.unit.broker.context import DATA, HOST, Story, batch, produce_request, running, values_of
from tests.unit.broker.effects_on_logs import BROKER, log_of, set_dynamically

CLEANER = {
    "log.initial.task.delay.ms": "0",
    "log.cleaner.backoff.ms": "2000",
    "log.cleanup.policy": "compact",
}


async def filled(node: Story, topic: str = "a", **configs: str) -> None:
    """Have a log with five values of one key, all but the last in segments that rolled."""
    await node.create_topic(topic, 1, **configs)
    for number in range(5):
        assert (await node.produce(topic, batch(str(number).encode(), key=b"k"))).error_code == 0
        if number < 4:
            log_of(node, topic=topic).roll()


def has_been_cleaned(node: Story, topic: str = "a") -> bool:
    """Whether fewer records than were produced are left."""
    return len(values_of(b"".join(log_of(node, topic=topic).read_batches(0)))) < 5


# The cleaner


@pytest.mark.parametrize(
    ("key", "value"),
    [("log.cleaner.threads", "0"), ("log.cleaner.enable", "false"), ("log.cleaner.backoff.ms", "600000"),
     ("log.cleaner.min.cleanable.ratio", "1.0"), ("log.cleaner.min.compaction.lag.ms", str(2**62))],
)  # fmt: skip
def test_what_keeps_the_cleaner_from_cleaning(key: str, value: str) -> None:
    async def story(node: Story) -> None:
        await filled(node)
        await trio.sleep(60)
        assert has_been_cleaned(node) is not is_set

    for is_set in (True, False):
        configured(story, {**CLEANER, **({key: value} if is_set else {})})


def test_the_longest_lag_has_a_log_cleaned_that_is_not_dirty_enough() -> None:
    async def story(node: Story) -> None:
        await filled(node)
        await trio.sleep(60)
        assert has_been_cleaned(node) is is_set

    for is_set in (True, False):
        more = {"log.cleaner.max.compaction.lag.ms": "10000"} if is_set else {}
        configured(story, {**CLEANER, "log.cleaner.min.cleanable.ratio": "1.0", **more})


@pytest.mark.parametrize(
    ("configs", "is_cleaned"),
    [
        ({"min.cleanable.dirty.ratio": "1.0"}, False),
        ({"min.compaction.lag.ms": str(2**62)}, False),
        ({"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": "10000"}, True),
    ],
)
def test_a_topic_says_when_it_is_cleaned(configs: dict[str, str], is_cleaned: bool) -> None:
    async def story(node: Story) -> None:
        await filled(node, **configs)
        await trio.sleep(60)
        assert has_been_cleaned(node) is is_cleaned

    configured(story, CLEANER)


def test_delete_retention_ms_of_a_topic_reaches_its_log() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", delete_retention_ms="5")
        assert log_of(node).config.delete_retention_ms == 5

    configured(story, {})


def test_the_cleaner_is_told_at_once_what_changes() -> None:
    """The cleaner applies changed log.cleaner keys at once.

    They are .threads, .backoff.ms, .dedupe.buffer.size, .io.buffer.size, .io.buffer.load.factor
    and .io.max.bytes.per.second.
    """

    async def main(world: World) -> None:
        async with running(world, **CLEANER) as node:
            cleaner = node.broker.foundation.logs.cleaner
            changes = {
                "log.cleaner.threads": "2",
                "log.cleaner.backoff.ms": "7",
                "log.cleaner.dedupe.buffer.size": "3000000",
                "log.cleaner.io.buffer.size": "100000",
                "log.cleaner.io.buffer.load.factor": "0.5",
                "log.cleaner.io.max.bytes.per.second": "1000.5",
            }
            for name, value in changes.items():
                await set_dynamically(node, BROKER, "", name, value)
            told = cleaner.config
            assert (
                told.thread_count,
                told.backoff_ms,
                told.dedupe_buffer_bytes,
                told.io_buffer_bytes,
            ) == (2, 7, 3_000_000, 100_000)
            assert (told.dedupe_load_factor, told.io_max_bytes_per_second) == (0.5, 1000.5)

    sim_run(1, main)


def test_log_cleaner_delete_retention_ms_reaches_logs_from_the_file_and_live() -> None:
    async def main(world: World) -> None:
        async with running(world, **{"log.cleaner.delete.retention.ms": "5"}) as node:
            await node.create_topic("a")
            assert log_of(node).config.delete_retention_ms == 5
            await set_dynamically(node, BROKER, "", "log.cleaner.delete.retention.ms", "6")
            assert log_of(node).config.delete_retention_ms == 6

    sim_run(1, main)


# The metrics page


def test_the_metrics_page_is_where_metrics_listener_says() -> None:
    async def story(node: Story) -> None:
        page = await fetch(node.world.client_env().network, HOST, 9404)
        assert page.startswith("HTTP/1.1 200 OK")

    configured(story, {"metrics.listener": f"{HOST}:9404"})


# The start


@pytest.mark.parametrize("count", [1, 3])
def test_num_recovery_threads_per_data_dir_is_how_many_logs_are_opened_at_once(count: int) -> None:
    config, _ = parse_server_properties(f"node.id=1\nnum.recovery.threads.per.data.dir={count}")
    opened_at_once = 0

    async def main(world: World) -> int:
        nonlocal opened_at_once
        env = world.node_env("node")
        for index in range(6):
            env.files.make_directory(Path(f"/data/a-{index}"))
        env.files.pool_seconds = (0.5, 0.5)  # type: ignore[attr-defined]  # the memory disk's
        begun = trio.current_time()

        def open_one(_path: Path, topic_partition: TopicPartition, _known: OpenedFrom) -> object:
            return topic_partition

        loader = DirectoryLoader(
            env.files,
            Path("/data"),
            open_one,  # type: ignore[arg-type]  # who opens decides what a log is
            thread_count=config.log_manager.recovery_threads_per_data_dir,
        )
        await loader.load()
        return round((trio.current_time() - begun) / 0.5)

    assert sim_run(1, main) - 1 == 6 // count  # one call looks what there is


# Memory and sockets


def test_queued_max_request_bytes_lets_large_requests_wait_for_each_other() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        other = await node.connect()
        request = produce_request("a", batch(Random(1).randbytes(300_000)))
        chunks: list[Any] = list(
            encode_request(RequestHeader(ApiKey.PRODUCE, 9, 1, "half"), request)
        )
        frame = b"".join(chunks)
        half, rest = frame[:200_000], frame[200_000:]
        await node.client.send_bytes(half)
        await trio.sleep(0.1)
        with trio.move_on_after(5) as waiting:
            answer: ProduceResponse = await other.ask(request, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert waiting.cancelled_caught is is_set
        await node.client.send_bytes(rest)

    for is_set in (True, False):
        configured(story, {"queued.max.request.bytes": "400000"} if is_set else {})


def test_buffers_of_sockets_have_the_size_that_the_file_says() -> None:
    """socket.send.buffer.bytes, socket.receive.buffer.bytes; the kernel doubles what it is told."""
    config, _ = parse_server_properties(
        "node.id=1\nsocket.send.buffer.bytes=50000\nsocket.receive.buffer.bytes=60000"
    )

    async def main() -> None:
        network = real_env(config).network
        assert isinstance(network, SocketNetwork)
        listener = await network.listen("127.0.0.1", 0)
        options = (socket.SO_SNDBUF, socket.SO_RCVBUF)
        assert [listener._socket.getsockopt(socket.SOL_SOCKET, option) for option in options] == [
            100_000,
            120_000,
        ]
        listener.close()

    trio.run(main)


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="the queue of a listener can be seen on Linux only"
)
def test_socket_listen_backlog_size_bounds_who_waits_to_be_accepted() -> None:
    async def main() -> None:
        listener = await SocketNetwork().listen("127.0.0.1", 0, backlog=2)
        waiting = []
        for _ in range(8):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", listener.port))
            waiting.append(client)
        await trio.sleep(0.2)
        established = sum(1 for client in waiting if _is_connected(client))
        assert established <= 3
        for client in waiting:
            client.close()
        listener.close()

    config, _ = parse_server_properties("node.id=1\nsocket.listen.backlog.size=2")
    assert config.limits.backlog == 2
    trio.run(main)


def _is_connected(client: socket.socket) -> bool:
    try:
        client.getpeername()
    except OSError:
        return False
    return True


def test_metadata_log_segment_bytes_reaches_the_metadata_log() -> None:
    async def main(world: World) -> None:
        async with running(world, **{"metadata.log.segment.bytes": "8388608"}) as node:
            assert node.broker.raft.log.log.config.segment_bytes == 8_388_608
            assert (DATA / "__cluster_metadata-0").name in node.broker.env.files.list_directory(
                DATA
            )

    sim_run(1, main)
