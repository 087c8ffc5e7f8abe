"""The audit log goes into a file that rolls and into a topic.

It is complete and bounded, and it never causes records of its own.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.broker.authorization import audit_queue
from log_service.broker.authorization.audit_file import AuditFile, RollingFile
from log_service.broker.authorization.audit_queue import AuditQueue
from log_service.broker.main import set_audit_level
from log_service.broker.metrics.authorizer import authorizer_families
from log_service.broker.one_error import one_error
from log_service.common.access import AclOperation, AclResource, Principal
from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.config.views import AuditConfig
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.security.acls.decision import DEFAULT_ALLOW, DEFAULT_DENY
from log_service.security.audit import LOGGER_NAME, AuditEntry
from log_service.storage.files import RealFiles
from tests.helpers.cluster import Cluster, host_of, node_properties, tell_cluster
from tests.sim import World, sim_run
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    STANDARD,
    TOPIC,
    AclStory,
    tell_with_acls,
)
from tests.unit.broker.context import (
    HOST,
    RawClient,
    Story,
    batch,
    configuration,
    running,
    values_of,
)

READ, WRITE, DESCRIBE, CREATE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.CREATE,
)
PATH = Path("/audit/node-authorizer.log")
DENIED = (
    "Principal = User:ANONYMOUS is Denied operation = WRITE from host = client on resource = Topic:LITERAL:t for request = Produce"
    " with resourceRefCount = 1 based on rule DefaultDeny"
)


@pytest.fixture(autouse=True)
def level_of_the_audit_log() -> Iterator[None]:
    """The level is of the process: give it back."""
    logger = logging.getLogger(LOGGER_NAME)
    before = logger.level
    yield
    logger.setLevel(before)


def tell_with_audit_log(main: Callable[[AclStory], Awaitable[None]], **properties: str) -> None:
    wanted = {
        "authorizer.class.name": STANDARD,
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    set_audit_level(configuration(wanted)[0])
    tell_with_acls(main, **properties)


def entry(name: str = "t", **changed: Any) -> AuditEntry:
    parts: dict[str, Any] = {
        "wall_ms": 1_700_000_000_123,
        "level": "INFO",
        "principal": Principal("User", "ann"),
        "decision": DEFAULT_DENY,
        "operation": READ,
        "host": "h",
        "resource": AclResource.TOPIC,
        "name": name,
        "api": "Fetch",
        "count": 1,
    }
    return AuditEntry(**{**parts, **changed})


def lines_of(node: Story) -> list[str]:
    return node.world.node_env(HOST).files.read_bytes(PATH).decode().splitlines()


async def refused_produce(node: AclStory, topic: str = "t") -> None:
    assert (await node.produce(topic, batch(b"x"))).error_code == 29


# The file


def test_what_is_denied_is_a_line_of_the_file_as_kafka_writes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await refused_produce(node)
        await node.allow((WRITE, TOPIC, "t"))
        assert (await node.produce("t", batch(b"x"))).error_code == 0
        await trio.sleep(1)
        (line,) = lines_of(node)
        moment, _, rest = line.partition("] ")
        assert rest == f"INFO {DENIED} ({LOGGER_NAME})"
        assert moment[0] == "["
        assert len(moment) == len("[2026-11-23 20:46:07,123")
        # As a request does that sets the level of the logger.
        logging.getLogger(LOGGER_NAME).setLevel(logging.WARNING)
        await refused_produce(node, "other")
        await trio.sleep(1)
        assert lines_of(node) == [line]

    tell_with_audit_log(story, audit_log_path=str(PATH))
    assert not [record for record in caplog.records if record.name == LOGGER_NAME], (
        "the file has it, and no other log"
    )


def test_what_is_allowed_is_a_line_where_that_is_asked_for() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await node.allow((WRITE, TOPIC, "t"))
        assert (await node.produce("t", batch(b"x"))).error_code == 0
        await trio.sleep(1)
        allowed = [line for line in lines_of(node) if "Topic:LITERAL:t " in line]
        assert len(allowed) == 1
        assert "] DEBUG Principal = User:ANONYMOUS is Allowed operation = WRITE" in allowed[0]

    tell_with_audit_log(story, audit_log_path=str(PATH), audit_log_allowed_enable="true")


def test_the_last_decisions_are_written_before_a_node_stops() -> None:
    async def whole(world: World) -> None:
        wanted = {
            "listeners": f"PLAINTEXT://{HOST}:9092",
            "authorizer.class.name": STANDARD,
            "audit.log.path": str(PATH),
        }
        set_audit_level(configuration(wanted)[0])
        async with running(world, **wanted) as node:
            request = MetadataRequest(topics=None, include_cluster_authorized_operations=False)
            await node.ask(request, 9)
            await refused_produce(AclStory(world, node.broker, node.client), "no-such")
        assert b"Topic:LITERAL:no-such" in world.node_env(HOST).files.read_bytes(PATH)

    sim_run(1, whole)


def test_the_file_rolls_by_size_and_so_many_are_kept() -> None:
    async def story(node: AclStory) -> None:
        for number in range(60):
            await refused_produce(node, f"topic-{number:03}")
        await trio.sleep(1)
        files = node.world.node_env(HOST).files
        names = files.list_directory(PATH.parent)
        assert names == [PATH.name, f"{PATH.name}.1", f"{PATH.name}.2"]
        contents = [files.read_bytes(PATH.parent / name) for name in reversed(names)]
        assert all(len(content) <= 4096 for content in contents)
        lines = b"".join(contents).decode().splitlines()
        numbers = [int(line.partition("topic-")[2][:3]) for line in lines]
        assert numbers == list(range(60 - len(numbers), 60)), "the newest, in order, whole"
        assert len(numbers) > 30

    tell_with_audit_log(
        story, audit_log_path=str(PATH), audit_log_max_bytes="4096", audit_log_max_files="3"
    )


@pytest.mark.parametrize("max_files", [1, 2, 4])
def test_a_rolling_file_keeps_whole_lines(tmp_path: Path, max_files: int) -> None:
    lines = [b"%03d %s\n" % (number, b"x" * (number % 40)) for number in range(200)]
    path = tmp_path / "deep" / "a.log"
    for start in range(0, 200, 25):  # as after a restart, each time
        rolling = RollingFile(RealFiles(), path, max_bytes=300, max_files=max_files)
        rolling.append(lines[start : start + 25])
        rolling.close()
    names = [path, *(path.with_name(f"a.log.{number}") for number in range(1, max_files))]
    assert sorted(path.parent.iterdir()) == sorted(names)
    contents = [name.read_bytes() for name in reversed(names)]
    assert b"".join(contents) == b"".join(lines)[-sum(map(len, contents)) :]
    assert all(len(content) <= 300 and content.endswith(b"\n") for content in contents)


def test_a_line_that_is_larger_than_a_file_stands_alone(tmp_path: Path) -> None:
    rolling = RollingFile(RealFiles(), tmp_path / "a.log", max_bytes=10, max_files=3)
    rolling.append([b"1\n", b"2" * 50 + b"\n", b"3\n"])
    assert [(tmp_path / name).read_bytes() for name in ("a.log.2", "a.log.1", "a.log")] == [
        b"1\n",
        b"2" * 50 + b"\n",
        b"3\n",
    ]


def test_a_file_that_cannot_be_written_costs_decisions_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(world: World) -> None:
        queue, path = AuditQueue(), tmp_path / "a.log"
        (tmp_path / "a.log.1").mkdir()  # in the way of the file that rolls
        (tmp_path / "a.log.1" / "x").touch()
        config = AuditConfig(path=path, max_file_bytes=100, max_files=2)
        file = AuditFile(world.node_env(HOST).files, world.node_env(HOST).clock, path, config)
        file._rolling = RollingFile(RealFiles(), path, max_bytes=100, max_files=2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.write_with, file.write)
            for _number in range(3):
                queue.put_nowait(entry())
                await queue.wait_empty()
            assert (queue.written_count, queue.dropped_count) == (1, 2)
            (tmp_path / "a.log.1" / "x").unlink()
            (tmp_path / "a.log.1").rmdir()
            queue.put_nowait(entry())
            await queue.wait_empty()
            assert (queue.written_count, queue.dropped_count) == (2, 2)
            nursery.cancel_scope.cancel()
        file.close()

    sim_run(1, main)
    assert [
        record.levelname
        for record in caplog.records
        if "missing in the audit log" in record.getMessage()
    ] == ["WARNING"]


# The queue


def test_a_flood_of_what_is_allowed_hides_no_denial() -> None:
    taken: list[AuditEntry] = []

    async def write(entries: Sequence[AuditEntry]) -> bool:
        taken.extend(entries)
        return True

    async def main(_: World) -> None:
        queue = AuditQueue()
        for _number in range(audit_queue.MAX_WAITING_COUNT + 5):
            queue.put_nowait(entry("flood", decision=DEFAULT_ALLOW))
        queue.put_nowait(entry("denied"))
        assert (queue.dropped_count, queue.dropped_denied_count) == (5, 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.write_with, write)
            await queue.wait_empty()
            nursery.cancel_scope.cancel()
        assert taken[0].name == "denied"
        assert len(taken) == audit_queue.MAX_WAITING_COUNT + 1
        for _number in range(audit_queue.MAX_WAITING_COUNT + 3):
            queue.put_nowait(entry())
        assert (queue.dropped_count, queue.dropped_denied_count) == (8, 3)

    sim_run(1, main)


def test_a_flood_of_denials_delays_nothing_that_is_allowed() -> None:
    """Denials do not hold up the records of allowed decisions.

    Allowed decisions waited for all denials, and were dropped when denials came faster than the
    log could be written.
    """
    writes: list[list[str]] = []

    async def main(_: World) -> None:
        queue = AuditQueue()

        def deny(denials: int) -> None:
            for _number in range(denials):
                queue.put_nowait(entry(f"denied {next(numbers)}"))

        async def write(entries: Sequence[AuditEntry]) -> bool:
            writes.append([each.name for each in entries])
            if len(writes) < 20:
                deny(len(entries) + 7)
            return len(writes) != 2

        numbers = count()
        deny(audit_queue.MAX_WAITING_COUNT)
        for number in range(3):
            queue.put_nowait(entry(f"allowed {number}", decision=DEFAULT_ALLOW))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.write_with, write)
            await queue.wait_empty()
            nursery.cancel_scope.cancel()
        assert writes[0][-3:] == ["allowed 0", "allowed 1", "allowed 2"]
        assert {len(write) for write in writes[:-1]} == {audit_queue.MAX_TAKEN_COUNT}
        denied = [
            int(name.split()[1]) for write in writes for name in write if name.startswith("denied")
        ]
        assert denied == sorted(denied)
        assert queue.written_count == len(denied) + 3 - audit_queue.MAX_TAKEN_COUNT
        assert (
            queue.dropped_count
            == queue.dropped_denied_count
            == next(numbers) - len(denied) + audit_queue.MAX_TAKEN_COUNT
        )

    sim_run(1, main)


@pytest.mark.parametrize(
    ("waiting", "taken"),
    [
        ((0, 9), (0, 9)),
        ((9, 0), (9, 0)),
        ((900, 0), (500, 0)),
        ((0, 900), (0, 500)),
        ((900, 900), (250, 250)),
        ((900, 20), (480, 20)),
        ((20, 900), (20, 480)),
        ((300, 200), (300, 200)),
    ],
)
def test_each_kind_has_half_of_a_write_if_it_needs_that(
    waiting: tuple[int, int], taken: tuple[int, int]
) -> None:
    assert audit_queue.shares(*waiting) == taken


def test_a_queue_that_is_not_emptied_stays_small() -> None:
    async def main(_: World) -> None:
        queue = AuditQueue()
        for _number in range(audit_queue.MAX_WAITING_COUNT + 5):
            queue.put_nowait(entry())
        assert queue.dropped_count == 5
        large = AuditQueue()
        for _number in range(1_000):
            large.put_nowait(entry("n" * 32_000))
        assert large.dropped_count == 1_000 - audit_queue.MAX_WAITING_SIZE // (
            32_000 + len("ann") + len("h")
        )

    sim_run(1, main)


# The topic


async def records_of(node: AclStory, topic: str = "audit") -> list[dict[str, Any]]:
    """Read the topic as someone who may."""
    await node.allow((READ, TOPIC, topic))
    told = await node.fetch(topic, 0)
    return [json.loads(value or b"") for value in values_of(told.records)]


def test_what_is_denied_is_a_record_of_the_topic() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await refused_produce(node)
        await trio.sleep(2)
        first = (await records_of(node))[0]
        assert first.pop("time_ms") > 0
        assert first == {
            "node_id": 1,
            "principal": "User:ANONYMOUS",
            "host": "client",
            "operation": "WRITE",
            "resource_type": "TOPIC",
            "resource_name": "t",
            "api": "Produce",
            "count": 1,
            "allowed": False,
            "rule": "DefaultDeny",
        }

    tell_with_audit_log(story, audit_log_topic="audit")


def test_reading_and_writing_the_topic_are_no_records_of_it() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await node.allow((READ, TOPIC, "audit"), (WRITE, TOPIC, "audit"), (WRITE, TOPIC, "t"))
        assert (await node.produce("t", batch(b"x"))).error_code == 0
        await trio.sleep(2)
        before = await records_of(node)
        assert [record["resource_name"] for record in before if record["api"] == "Produce"] == ["t"]
        for _ in range(3):
            await trio.sleep(2)
            await node.fetch("audit", 0)
        assert await records_of(node) == before

    tell_with_audit_log(story, audit_log_topic="audit", audit_log_allowed_enable="true")


def test_an_attempt_on_the_topic_is_a_record_of_it() -> None:
    async def story(node: AclStory) -> None:
        await refused_produce(node)
        await trio.sleep(2)
        await refused_produce(node, "audit")
        await trio.sleep(2)
        assert [record["resource_name"] for record in await records_of(node)] == ["t", "audit"]

    tell_with_audit_log(story, audit_log_topic="audit")


def test_a_topic_that_cannot_be_created_holds_up_no_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: AclStory) -> None:
        for _ in range(3):
            await refused_produce(node)
        await trio.sleep(30)
        authorizer = node.broker.authorizer
        assert authorizer is not None
        assert authorizer.audit_queues["topic"].dropped_count == 3
        samples = [
            (family.name, labels, value)
            for family in authorizer_families(authorizer, lambda _name, _value: 0.0)
            for _, labels, value in family.samples
            if family.name.startswith("tidelog_audit_log")
        ]
        assert samples == [
            ("tidelog_audit_log_written_total", 'to="topic"', 0),
            ("tidelog_audit_log_dropped_total", 'to="topic"', 3),
            ("tidelog_audit_log_dropped_denied_total", 'to="topic"', 3),
        ]

    tell_with_audit_log(story, audit_log_topic="audit", default_replication_factor="3")
    assert any("missing in the topic audit" in record.getMessage() for record in caplog.records)


def test_a_node_that_leads_no_partition_of_the_topic_sends_its_decisions_to_one_that_does() -> None:
    """The audit log also records allowed decisions here.

    Copying and writing its own topic cause no further records.
    """
    ids = (1, 2, 3)
    properties = {
        "authorizer_class_name": STANDARD,
        "super_users": "User:ANONYMOUS",
        "audit_log_topic": "audit",
        "audit_log_allowed_enable": "true",
        "num_partitions": "1",
        "default_replication_factor": "3",
    }
    files = {each: node_properties(each, ids, **properties) for each in ids}
    set_audit_level(parse_server_properties(files[1])[0])

    async def story(cluster: Cluster) -> None:
        def length() -> int:
            logs = [
                broker.replicas.partitions["audit", 0].log for broker in cluster.brokers.values()
            ]
            return max(log.log_end_offset for log in logs if log is not None)

        network = cluster.world.client_env().network
        for node_id in ids:
            client = RawClient(await network.connect(host_of(node_id), 9092))
            await client.ask(
                MetadataRequest(topics=None, include_cluster_authorized_operations=True), 8
            )
        await cluster.until(
            lambda: all(
                ("audit", 0) in broker.replicas.partitions for broker in cluster.brokers.values()
            )
        )
        await cluster.until(lambda: length() > 0)
        await trio.sleep(20)
        quiet = length()
        told = []
        for broker in cluster.brokers.values():
            partition = broker.replicas.partitions["audit", 0]
            if partition.is_leader:
                content = b"".join(partition.read_batches())
                told = [json.loads(value or b"") for value in values_of(content)]
        assert {record["node_id"] for record in told if record["api"] == "Metadata"} == set(ids)
        await trio.sleep(60)
        assert length() == quiet, "nothing was asked meanwhile"

    tell_cluster(story, files)


# What is asked for


def test_an_audit_log_without_an_authorizer_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"audit\.log\.topic is set, but there is no authorizer"):
        configuration({"audit.log.topic": "audit"})


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("audit.log.topic", "a b", "characters"),
        ("audit.log.topic", "__consumer_offsets", "brokers keep this topic for themselves"),
        ("audit.log.max.bytes", "10", "at least 1024"),
        ("audit.log.max.files", "0", "at least 1"),
    ],
)
def test_bad_values_are_refused(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        configuration({"authorizer.class.name": STANDARD, key: value})


def test_a_file_that_cannot_be_opened_stops_the_start() -> None:
    async def main(world: World) -> None:
        world.node_env(HOST).files.write_atomically(
            Path("/audit"), b"a file where a directory is wanted"
        )
        with pytest.raises(OSError, match="audit"), one_error():
            async with running(
                world, **{"authorizer.class.name": STANDARD, "audit.log.path": str(PATH)}
            ):
                pass

    sim_run(1, main)


def test_rights_on_the_cluster_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """A topic without a file: lines go to the node's own log, too."""

    async def story(node: AclStory) -> None:
        await node.allow((CREATE, CLUSTER, CLUSTER_NAME))
        await refused_produce(node)

    tell_with_audit_log(story, audit_log_topic="audit")
    assert [record.getMessage() for record in caplog.records if record.name == LOGGER_NAME] == [
        DENIED
    ]
