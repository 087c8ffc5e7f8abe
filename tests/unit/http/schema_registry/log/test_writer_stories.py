"""A writer against a broker that fences, drops connections and forgets to respond, in virtual time."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from log_service.client.admin.admin import Admin
from log_service.common.errors import ErrorCode
from log_service.http.schema_registry.log.errors import (
    NotWritten,
    OutcomeUnknown,
    RecordsTooLarge,
    Superseded,
)
from log_service.http.schema_registry.log.freshness import REFUSED_AFTER_MS, RENEWED_AFTER_MS
from log_service.http.schema_registry.log.writer import NOOP_KEY, SchemasWriter
from log_service.protocol.api_versions import ApiKey
from log_service.records.batch import BatchHeader
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker
from tests.unit.client.scripted_transactions import ScriptedCoordinator

Story = Callable[[ScriptedCoordinator, SchemasWriter, SchemasWriter], Awaitable[None]]
TIMEOUT_MS = 60_000
DROPPED = ScriptedBroker.DROP
WRITTEN_AND_DROPPED = ScriptedBroker.APPEND_AND_DROP


def tell(story: Story, *, is_taken_over: bool = True) -> ScriptedCoordinator:
    """Run a story of one writer, which has taken over."""

    async def main(world: World) -> ScriptedCoordinator:
        broker = ScriptedBroker(world, max_batch_bytes=10_000)
        coordinator = ScriptedCoordinator(broker, is_version_2=True)
        broker.admit = lambda header: _fenced(broker, header)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Admin(
                "broker:9092", env=world.client_env(), request_timeout_ms=5_000
            ) as admin:
                writer, rival = SchemasWriter(admin, "t"), SchemasWriter(admin, "t")
                with trio.fail_after(100_000):
                    if is_taken_over:
                        await writer.take_over(TIMEOUT_MS)
                    await story(coordinator, writer, rival)
            nursery.cancel_scope.cancel()
        return coordinator

    return sim_run(1, main)


def _fenced(broker: ScriptedBroker, header: BatchHeader) -> ErrorCode:
    """Refuse an older epoch than the last one in the log, as a partition's leader does."""
    epochs = [each.producer_epoch for each in broker.logs[0].headers]
    return (
        ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch < max(epochs, default=-1)
        else ErrorCode.NONE
    )


def numbers(coordinator: ScriptedCoordinator) -> list[tuple[int, int, int]]:
    """Epoch, first sequence and record count of each batch in the log."""
    return [
        (each.producer_epoch, each.base_sequence, each.record_count)
        for each in coordinator.broker.logs[0].headers
    ]


async def put(writer: SchemasWriter, *values: bytes) -> int:
    return await writer.write([(b"key", value) for value in values], TIMEOUT_MS)


def test_batches_have_the_epoch_of_a_transactional_id_and_are_in_no_transaction() -> None:
    """The first record comes alone, and the sequence goes on behind it."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        assert await put(writer, b"a", b"b") == 2
        assert await put(writer, b"c") == 3

    told = tell(story)
    assert numbers(told) == [(0, 0, 1), (0, 1, 2), (0, 3, 1)]
    assert not any(each.is_transactional for each in told.broker.logs[0].headers)
    asked = [
        request.transactional_id
        for key, request in told.broker.requests
        if key is ApiKey.INIT_PRODUCER_ID
    ]
    assert asked == ["tidelog-schema-registry-t"]


def test_the_first_record_has_the_key_that_registries_ignore() -> None:
    """Its value is the caller's."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        assert await writer.take_over(TIMEOUT_MS, b"value") == 1

    assert tell(story).broker.logs[0].values == [b"", b"value"]
    assert NOOP_KEY == b'{"keytype":"NOOP","magic":0}'


@pytest.mark.parametrize(
    "failure",
    [
        WRITTEN_AND_DROPPED,
        DROPPED,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ScriptedBroker.IGNORE,
    ],
)
def test_a_batch_without_a_clear_outcome_is_sent_again_with_its_number(
    failure: ErrorCode | str,
) -> None:
    """The log has it once."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.script.append(failure)
        assert await put(writer, b"a") == 1
        assert await put(writer, b"b") == 2

    assert numbers(tell(story)) == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]


@pytest.mark.parametrize("failure", [WRITTEN_AND_DROPPED, DROPPED])
def test_without_an_outcome_in_time_the_writer_takes_over_anew(failure: str) -> None:
    """A batch that still is on its way is refused from then on."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.script.extend([failure] * 1_000)
        with pytest.raises(OutcomeUnknown):
            await put(writer, b"perhaps")
        coordinator.broker.script.clear()
        assert writer.is_renewal_due
        with pytest.raises(Superseded):
            await put(writer, b"never")
        await writer.take_over(TIMEOUT_MS)
        await put(writer, b"b")

    told = tell(story)
    assert numbers(told)[-2:] == [(1, 0, 1), (1, 1, 1)]
    assert b"never" not in told.broker.logs[0].values


def test_a_batch_that_surely_is_not_written_leaves_its_number() -> None:
    """The same writer goes on, once enough replicas are in sync."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.script.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        with pytest.raises(NotWritten) as caught:
            await put(writer, b"a")
        assert not isinstance(caught.value, Superseded)
        coordinator.broker.script.clear()
        await put(writer, b"b")

    assert numbers(tell(story)) == [(0, 0, 1), (0, 1, 1)]


def test_a_fenced_writer_is_superseded() -> None:
    """The newer epoch is in the log, so the older batch is not."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        await rival.take_over(TIMEOUT_MS)
        with pytest.raises(Superseded, match="another instance took"):
            await put(writer, b"late")
        assert writer.topic_id is None

    assert numbers(tell(story)) == [(0, 0, 1), (1, 0, 1)]


def test_a_writer_that_is_fenced_after_an_unclear_attempt_does_not_know_the_outcome() -> None:
    """The first attempt may be in the log, before the first record of the successor."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.script.extend([WRITTEN_AND_DROPPED, ErrorCode.INVALID_PRODUCER_EPOCH])
        with pytest.raises(OutcomeUnknown):
            await put(writer, b"a")

    tell(story)


@pytest.mark.parametrize(
    ("size", "sent_count"), [(20_000, 1), (40 << 20, 0)], ids=["the broker refuses", "never sent"]
)
def test_records_that_are_too_large_are_told(size: int, sent_count: int) -> None:
    """The writer goes on with the next batch."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        before_count = coordinator.broker.count(ApiKey.PRODUCE)
        with pytest.raises(RecordsTooLarge):
            await put(writer, bytes(size))
        assert coordinator.broker.count(ApiKey.PRODUCE) == before_count + sent_count
        await put(writer, b"small")

    assert numbers(tell(story)) == [(0, 0, 1), (0, 1, 1)]


def test_a_cancelled_write_ends_the_epoch() -> None:
    """Its batch may be in the log."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.script.append(ScriptedBroker.IGNORE)
        with trio.move_on_after(1):
            await put(writer, b"a")
        assert writer.is_renewal_due
        with pytest.raises(Superseded):
            await put(writer, b"b")

    tell(story)


def test_a_writer_that_was_released_during_a_write_stays_released() -> None:
    """Leadership may be lost while a batch is on its way."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.delay_s = 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put, writer, b"a")
            await trio.sleep(0.5)
            writer.release()
        with pytest.raises(Superseded):
            await put(writer, b"b")

    assert numbers(tell(story)) == [(0, 0, 1), (0, 1, 1)]


def test_an_old_epoch_sends_nothing() -> None:
    """Brokers may have forgotten who came after it."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        await trio.sleep(RENEWED_AFTER_MS / 1_000)
        assert writer.is_renewal_due
        await put(writer, b"in time")
        await trio.sleep((REFUSED_AFTER_MS - RENEWED_AFTER_MS) / 1_000)
        sent_count = coordinator.broker.count(ApiKey.PRODUCE)
        with pytest.raises(Superseded, match="too old"):
            await put(writer, b"late")
        assert coordinator.broker.count(ApiKey.PRODUCE) == sent_count

    assert numbers(tell(story)) == [(0, 0, 1), (0, 1, 1)]


def test_nothing_is_written_into_a_topic_that_was_created_anew() -> None:
    """The state that the records were decided over is not that of the new topic."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.broker.recreate()
        with pytest.raises(Superseded, match="created anew"):
            await put(writer, b"old")
        await writer.take_over(TIMEOUT_MS)
        await put(writer, b"new")

    assert tell(story).broker.logs[0].values == [b"", b"new"]


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, DROPPED]
)
def test_taking_over_waits_for_the_coordinator(code: ErrorCode | str) -> None:
    """An epoch that was given and not heard of is passed over."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.script[ApiKey.INIT_PRODUCER_ID].extend([code, code])
        assert await writer.take_over(TIMEOUT_MS) == 0

    assert numbers(tell(story, is_taken_over=False)) == [(0, 0, 1)]


def test_a_writer_without_the_right_is_told_why() -> None:
    """The error names the transactional id, which an operator must allow."""

    async def story(
        coordinator: ScriptedCoordinator, writer: SchemasWriter, rival: SchemasWriter
    ) -> None:
        coordinator.script[ApiKey.INIT_PRODUCER_ID].append(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        with pytest.raises(
            NotWritten, match=r"tidelog-schema-registry-t.*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        ):
            await writer.take_over(TIMEOUT_MS)

    tell(story, is_taken_over=False)
