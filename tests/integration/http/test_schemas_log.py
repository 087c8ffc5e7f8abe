"""The topic of schemas is tested on real clusters, tidelog's and Apache Kafka's.

Both have the same tests with the same outcome.
"""

import itertools

import pytest

from log_service.client import BlockingAdmin, ConfigError, ConfigResource, NewTopic
from log_service.http.schema_registry.log.errors import RecordsTooLarge, Superseded
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.unreadable_batches import garble
from tests.integration.client_clusters import CLUSTERS, ClusterPool, run
from tests.integration.http.schema_logs import TIMEOUT_MS, open_log

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

names = itertools.count()


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(request: pytest.FixtureRequest, pool: ClusterPool) -> str:
    return pool.servers(request.param)


@pytest.fixture
def topic() -> str:
    return f"schemas-{next(names)}"


def test_the_topic_is_created_compacted_with_one_partition(bootstrap: str, topic: str) -> None:
    """A registry needs no operator to create its topic."""

    async def main() -> None:
        async with open_log(bootstrap, topic), open_log(bootstrap, topic):
            pass

    run(main)
    with BlockingAdmin(bootstrap) as admin:
        configs = admin.describe_configs([ConfigResource.topic(topic)])[ConfigResource.topic(topic)]
        assert admin.describe_topics([topic])[topic].partition_count == 1
    assert configs["cleanup.policy"].value == "compact"


@pytest.mark.parametrize(
    ("partition_count", "policy", "named"),
    [(2, "compact", "2 partitions"), (1, "delete", "cleanup.policy=delete")],
)
def test_a_topic_that_loses_or_reorders_schemas_is_refused(
    bootstrap: str, topic: str, partition_count: int, policy: str, named: str
) -> None:
    """The sentence names the topic and its fault."""
    with BlockingAdmin(bootstrap) as admin:
        new = NewTopic(
            name=topic,
            partition_count=partition_count,
            replication_factor=1,
            configs={"cleanup.policy": policy},
        )
        admin.create_topics([new])

    async def main() -> None:
        async with open_log(bootstrap, topic):
            pass

    with pytest.raises(ConfigError) as caught:
        _run_flat(main)
    assert topic in str(caught.value)
    assert named in str(caught.value)


def _run_flat(main: object) -> None:
    try:
        run(main)  # type: ignore[arg-type]
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def test_what_one_instance_writes_another_reads_in_order(bootstrap: str, topic: str) -> None:
    """A batch is appended whole, and the offset of its last record is returned."""

    async def main() -> None:
        async with open_log(bootstrap, topic) as writer, open_log(bootstrap, topic) as reader:
            await writer.take_over(TIMEOUT_MS)
            first = await writer.put(b"a")
            assert await writer.put(b"b", b"c") == first + 2
            await reader.read_to_end(TIMEOUT_MS)
            assert reader.seen.keys == [b"a", b"b", b"c"]
            assert [record.value for record in reader.seen.records[-2:]] == [
                b"value of b",
                b"value of c",
            ]
            assert reader.position == first + 3

    run(main)


def test_a_superseded_writer_is_refused_by_the_brokers(bootstrap: str, topic: str) -> None:
    """Nothing of it is in the log behind the first record of its successor."""

    async def main() -> None:
        async with open_log(bootstrap, topic) as old, open_log(bootstrap, topic) as new:
            await old.take_over(TIMEOUT_MS)
            await old.put(b"before")
            await new.take_over(TIMEOUT_MS)
            assert new.seen.keys == [b"before"]
            with pytest.raises(Superseded):
                await old.put(b"after")
            with pytest.raises(Superseded):
                await old.prepare_write(TIMEOUT_MS)
            await new.put(b"mine")
            await new.read_to_end(TIMEOUT_MS)
            assert new.seen.keys == [b"before", b"mine"]

    run(main)


def test_a_former_writer_takes_over_again(bootstrap: str, topic: str) -> None:
    """Leadership may return to an instance. Its numbers begin anew, and the other one is refused."""

    async def main() -> None:
        async with open_log(bootstrap, topic) as one, open_log(bootstrap, topic) as other:
            for log, rival in ((one, other), (other, one), (one, other)):
                await log.take_over(TIMEOUT_MS)
                await log.put(b"x")
                with pytest.raises(Superseded):
                    await rival.put(b"never")
            await other.read_to_end(TIMEOUT_MS)
            assert other.seen.keys == [b"x"] * 3

    run(main)


def test_records_that_are_too_large_leave_the_writer_as_it_was(bootstrap: str, topic: str) -> None:
    """The next batch has the number of the refused one."""

    async def main() -> None:
        async with open_log(bootstrap, topic) as log:
            await log.take_over(TIMEOUT_MS)
            with pytest.raises(RecordsTooLarge):
                await log.write([(b"large", bytes(2 << 20))], TIMEOUT_MS)
            await log.put(b"small")
            await log.prepare_write(TIMEOUT_MS)
            assert log.seen.keys == [b"small"]

    run(main)


def test_a_topic_that_was_created_anew_begins_anew(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The state is that of the new topic, the log says so, and the writer has to take over again."""

    async def main() -> None:
        async with open_log(bootstrap, topic) as log:
            await log.take_over(TIMEOUT_MS)
            await log.put(b"old")
            await log.read_to_end(TIMEOUT_MS)
            with BlockingAdmin(bootstrap) as admin:
                admin.delete_topics([topic])
                admin.create_topics(
                    [
                        NewTopic(
                            name=topic,
                            partition_count=1,
                            replication_factor=1,
                            configs={"cleanup.policy": "compact"},
                        )
                    ]
                )
            await log.seen.is_begun_again.wait()
            await log.prepare_write(TIMEOUT_MS)
            await log.put(b"new")
            await log.read_to_end(TIMEOUT_MS)
            assert log.seen.keys == [b"new"]

    run(main)
    assert "created anew" in caplog.text


def test_a_batch_that_cannot_be_read_is_skipped_and_named(
    broker: BrokerProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All other records are read, and the warning names the offset."""

    async def write() -> int:
        async with open_log(broker.bootstrap, topic) as log:
            await log.take_over(TIMEOUT_MS)
            await log.put(b"a")
            broken = await log.put(b"b")
            await log.put(b"c")
            return broken

    broken = run(write)
    broker.stop()
    garble(broker.directory / "data" / f"{topic}-0" / f"{0:020d}.log", broken)
    broker.start()

    async def read() -> None:
        async with open_log(broker.bootstrap, topic) as log:
            assert log.seen.keys == [b"a", b"c"]
            await log.take_over(TIMEOUT_MS)
            await log.put(b"d")
            await log.read_to_end(TIMEOUT_MS)
            assert log.seen.keys == [b"a", b"c", b"d"]

    run(read)
    assert f"offsets {broken} to {broken} are skipped" in caplog.text


def test_a_broken_batch_at_the_end_keeps_no_reader_waiting(
    broker: BrokerProcess, topic: str
) -> None:
    """The end of the log is reached, although no record stands there."""

    async def write() -> int:
        async with open_log(broker.bootstrap, topic) as log:
            await log.take_over(TIMEOUT_MS)
            return await log.put(b"a")

    last = run(write)
    broker.stop()
    garble(broker.directory / "data" / f"{topic}-0" / f"{0:020d}.log", last)
    broker.start()

    async def read() -> None:
        async with open_log(broker.bootstrap, topic) as log:
            assert log.seen.keys == []
            assert log.position == last + 1

    run(read)
