"""Registries run over a real node in virtual time.

An instance must have read the topic before it takes over.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from log_service.client import Admin
from log_service.http.schema_registry.log.errors import OutcomeUnknown, ReadTimedOut, Superseded
from log_service.http.schema_registry.log.freshness import RENEWED_AFTER_MS
from log_service.http.schema_registry.log.reader import LogRecord
from log_service.http.schema_registry.log.schemas_log import LogSettings, SchemasLog
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster

SERVERS = f"{host_of(1)}:{BROKER_PORT}"
TIMEOUT_MS = 20_000
ALONE = {
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "1",
}


class State:
    """All records by key, and the value that a new writer's first record gets."""

    def __init__(self) -> None:
        self.values: dict[bytes | None, bytes | None] = {}
        self.keys: list[bytes | None] = []

    def begin_anew(self) -> None:
        self.values, self.keys = {}, []

    def apply(self, record: LogRecord) -> None:
        self.values[record.key] = record.value
        self.keys.append(record.key)

    async def settled(self) -> None:
        """Take more records at once."""

    def first_value(self) -> bytes:
        return b"%d records" % len(self.keys)


class Instance:
    """One registry."""

    def __init__(self, log: SchemasLog, state: State) -> None:
        self.log = log
        self.state = state

    async def put(self, key: bytes) -> int:
        """Decide and write one record, as a registry does."""
        await self.log.prepare_write(TIMEOUT_MS)
        offset = await self.log.write([(key, b"value")], TIMEOUT_MS)
        await self.log.read_to(offset, TIMEOUT_MS)
        return offset


@asynccontextmanager
async def instance(cluster: Cluster, name: str = "registry") -> AsyncIterator[Instance]:
    env = cluster.world.client_env(name)
    async with (
        Admin(SERVERS, env=env, request_timeout_ms=5_000) as admin,
        trio.open_nursery() as nursery,
    ):
        state = State()
        settings = LogSettings(bootstrap_servers=SERVERS, client={"request_timeout_ms": 5_000})
        log = SchemasLog(settings, admin, state, env, first_value=state.first_value)
        await nursery.start(log.run)
        await log.read_to_end(TIMEOUT_MS)
        yield Instance(log, state)
        nursery.cancel_scope.cancel()


def tell(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run a story beside one node."""

    async def limited(cluster: Cluster) -> None:
        with trio.fail_after(20_000):
            await story(cluster)

    tell_cluster(limited, {1: node_properties(1, (1,), **ALONE)})


NOOP = b'{"keytype":"NOOP","magic":0}'


def test_a_new_writer_has_read_all_that_the_former_wrote() -> None:
    """Its first record says what it knew, and comes behind all of that."""

    async def story(cluster: Cluster) -> None:
        async with instance(cluster) as one, instance(cluster, "other") as other:
            await one.log.take_over(TIMEOUT_MS)
            await one.put(b"a")
            await other.log.take_over(TIMEOUT_MS)
            assert other.state.keys == [NOOP, b"a", NOOP]
            assert other.state.values[NOOP] == b"2 records"
            with pytest.raises(Superseded):
                await one.put(b"late")
            await other.put(b"b")

    tell(story)


def test_an_instance_that_never_took_over_writes_nothing() -> None:
    """A released one writes nothing either."""

    async def story(cluster: Cluster) -> None:
        async with instance(cluster) as one:
            with pytest.raises(Superseded):
                await one.put(b"a")
            await one.log.take_over(TIMEOUT_MS)
            one.log.release()
            with pytest.raises(Superseded):
                await one.put(b"b")
            assert one.state.keys == [NOOP]

    tell(story)


def test_a_writer_renews_its_epoch_before_a_decision() -> None:
    """It writes a first record again, and stays the writer."""

    async def story(cluster: Cluster) -> None:
        async with instance(cluster) as one:
            await one.log.take_over(TIMEOUT_MS)
            await one.put(b"a")
            await trio.sleep(RENEWED_AFTER_MS / 1_000)
            await one.put(b"b")
            await one.put(b"c")
            assert one.state.keys == [NOOP, b"a", NOOP, b"b", b"c"]

    tell(story)


@pytest.mark.parametrize("is_written", [True, False], ids=["response lost", "request lost"])
def test_after_an_unknown_outcome_the_writer_finds_out_by_taking_over_anew(
    is_written: bool,
) -> None:
    """The next decision is made over what is in the log, and nothing older comes behind it."""

    async def story(cluster: Cluster) -> None:
        network = cluster.world.network
        async with instance(cluster) as one:
            await one.log.take_over(TIMEOUT_MS)
            await one.put(b"a")
            await one.log.prepare_write(TIMEOUT_MS)
            source, target = (host_of(1), "registry") if is_written else ("registry", host_of(1))
            network.cut(source, target)
            with pytest.raises(OutcomeUnknown):
                await one.log.write([(b"perhaps", b"value")], TIMEOUT_MS)
            with pytest.raises(ReadTimedOut):
                await one.log.read_to_end(TIMEOUT_MS)
            network.reset_connections("registry")
            network.heal()
            await one.put(b"b")
            assert one.state.keys == [NOOP, b"a", *([b"perhaps"] if is_written else []), NOOP, b"b"]

    tell(story)
