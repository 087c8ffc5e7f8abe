"""Topics that ask for registered schemas: what producers are told, and what is appended."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from log_service.broker.schema_validation.validation import SchemaValidation
from log_service.common.errors import ErrorCode, ProtocolError
from log_service.common.types import TRANSACTION_STATE_TOPIC
from log_service.network.server import PendingResponse
from log_service.protocol.messages.produce import PartitionProduceResponse
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.schema_names import PREFIX
from tests.helpers.garbage import counted_garbage
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import produce_request
from tests.unit.broker.schema_validation.registries import FakeRegistry

GOOD, OTHER = 7, 8
RECORD_NAME = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
NEWEST = 12
FEW, MANY = 3, 30_000
SIZES = pytest.mark.parametrize("count", [FEW, MANY], ids=["few", "many"])
Storied = Callable[[HandlerNode, FakeRegistry], Awaitable[None]]


def tell(story: Storied, **configs: str) -> None:
    """Run a story with a topic ``a`` whose values are validated, or as ``configs`` say."""

    async def main(node: HandlerNode) -> None:
        registry = FakeRegistry(
            subjects={GOOD: {"a-value"}, OTHER: {"b-value"}}, record_names={OTHER: {"b-value"}}
        )
        node.node.schema_validation = SchemaValidation(registry, node.node.clock)
        wanted: Any = configs or {"confluent_value_schema_validation": "true"}
        await node.create_topic("a", **wanted, max_message_bytes=str(8 << 20))
        await story(node, registry)

    tell_handlers(main)


def named(schema_id: int) -> bytes:
    return PREFIX.pack(0, schema_id) + b"payload"


def records(
    *values: bytes | None, key: bytes | None = b"k", codec: Codec = Codec.NONE, **header: Any
) -> bytes:
    return bytes(build_batch([(0, key, value) for value in values], codec=codec, **header))


async def produce(
    node: HandlerNode, content: bytes, *, transactional_id: str | None = None, **wanted: Any
) -> PartitionProduceResponse:
    request = produce_request("a", content, **wanted)
    request.transactional_id = transactional_id
    response = await node.ask(request, NEWEST)
    result: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return result


def end_of(node: HandlerNode) -> int:
    log = node.replicas.get_partition("a", 0).log
    assert log is not None
    return log.log_end_offset


@SIZES
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=["plain", "lz4"])
def test_registered_schemas_are_taken_and_asked_for_once(count: int, codec: Codec) -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        for _ in range(4):
            assert (
                await produce(node, records(*[named(GOOD)] * count, codec=codec))
            ).error_code == 0
        assert registry.asked == [GOOD]
        assert end_of(node) == 4 * count

    tell(story)


@SIZES
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=["plain", "lz4"])
def test_a_wrong_record_refuses_its_batch_with_index_and_reason(count: int, codec: Codec) -> None:
    async def story(node: HandlerNode, _registry: FakeRegistry) -> None:
        for wrong, reason in (
            (named(OTHER), "schema id 8 is not registered under subject a-value"),
            (named(99), "schema id 99 is not registered"),
            (b"plain", "its value names no schema"),
        ):
            for _ in range(2):
                found = await produce(node, records(*[named(GOOD)] * count, wrong, codec=codec))
                assert found.error_code == ErrorCode.INVALID_RECORD
                ((index, text),) = [
                    (each.batch_index, each.batch_index_error_message)
                    for each in found.record_errors
                ]
                assert index == count
                assert reason in str(text)
                assert reason in str(found.error_message)
        assert end_of(node) == 0

    tell(story)


def test_tombstones_are_taken() -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        assert (await produce(node, records(None, None))).error_code == 0
        assert registry.asked == []

    tell(story)


def test_keys_and_strategies_of_a_topic() -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        registry.subjects[9] = {"a-key"}
        assert (await produce(node, records(named(OTHER), key=named(9)))).error_code == 0
        assert (await produce(node, records(named(OTHER), key=None))).error_code == 0
        assert (
            await produce(node, records(named(GOOD), key=named(9)))
        ).error_code == ErrorCode.INVALID_RECORD
        assert (
            await produce(node, records(named(OTHER), key=named(GOOD)))
        ).error_code == ErrorCode.INVALID_RECORD

    tell(
        story,
        confluent_key_schema_validation="true",
        confluent_value_schema_validation="true",
        confluent_value_subject_name_strategy=RECORD_NAME,
    )


def test_a_topic_that_does_not_ask_takes_anything() -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        assert (await produce(node, records(b"plain"))).error_code == 0
        assert registry.asked == []

    tell(story, retention_ms="1000")


def test_validation_begins_with_the_change_of_its_topic() -> None:
    async def story(node: HandlerNode, _: FakeRegistry) -> None:
        assert (await produce(node, records(b"plain"))).error_code == 0
        node.context.configure("confluent.value.schema.validation", "true")
        assert (await produce(node, records(b"plain"))).error_code == ErrorCode.INVALID_RECORD
        node.context.configure("confluent.value.schema.validation", "false")
        assert (await produce(node, records(b"plain"))).error_code == 0

    tell(story, retention_ms="1000")


def test_a_schema_that_is_registered_while_its_producer_waits_is_taken() -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        registry.gate = trio.Event()
        async with trio.open_nursery() as nursery:

            async def late() -> None:
                assert (await produce(node, records(named(99)))).error_code == 0

            nursery.start_soon(late)
            await trio.testing.wait_all_tasks_blocked()
            assert registry.asked == [99]
            registry.subjects[99] = {"a-value"}
            registry.gate.set()

    tell(story)


def test_a_schema_that_is_registered_after_a_refusal_is_taken_soon() -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        assert (await produce(node, records(named(99)))).error_code == ErrorCode.INVALID_RECORD
        registry.subjects[99] = {"a-value"}
        await trio.sleep(1)
        assert (await produce(node, records(named(99)))).error_code == 0

    tell(story)


@SIZES
def test_without_an_answer_nothing_is_written_and_the_producer_may_try_again(count: int) -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        registry.failure = "http://registry:8081 cannot be reached"
        found = await produce(node, records(*[named(GOOD)] * count))
        assert found.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert registry.failure in str(found.error_message)
        assert (await produce(node, records(b"plain"))).error_code == ErrorCode.INVALID_RECORD
        assert end_of(node) == 0
        registry.failure = None
        await trio.sleep(1)
        assert (await produce(node, records(*[named(GOOD)] * count))).error_code == 0

    tell(story)


def test_batches_of_a_connection_keep_their_order_while_the_first_one_waits() -> None:
    """An idempotent producer has five requests under way, and a later one must not overtake."""

    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        registry.gate = trio.Event()
        pending = []
        for sequence, schema_id in enumerate((GOOD, GOOD, 50, 50, GOOD)):
            registry.subjects[50] = {"a-value"}
            content = records(
                named(schema_id), producer_id=3, producer_epoch=0, base_sequence=sequence
            )
            pending.append(node.send(produce_request("a", content), NEWEST))
        await trio.testing.wait_all_tasks_blocked()
        assert end_of(node) == 0
        registry.gate.set()
        for each in pending:
            assert isinstance(each, PendingResponse)
            while not each.is_done:
                await trio.testing.wait_all_tasks_blocked()
        assert end_of(node) == 5
        content = records(named(GOOD), producer_id=3, producer_epoch=0, base_sequence=5)
        assert (await produce(node, content)).error_code == 0

    tell(story)


def test_a_refused_batch_takes_no_sequence_number() -> None:
    """The next batch with the same number is taken, and one that leaves it out is not."""

    async def story(node: HandlerNode, _: FakeRegistry) -> None:
        producer: dict[str, Any] = {"producer_id": 3, "producer_epoch": 0}
        assert (
            await produce(node, records(named(GOOD), base_sequence=0, **producer))
        ).error_code == 0
        assert (
            await produce(node, records(b"plain", base_sequence=1, **producer))
        ).error_code == ErrorCode.INVALID_RECORD
        gap = await produce(node, records(named(GOOD), base_sequence=2, **producer))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (
            await produce(node, records(named(GOOD), base_sequence=1, **producer))
        ).error_code == 0

    tell(story)


@SIZES
def test_transactions_are_checked_before_their_coordinator_is_asked(count: int) -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        await node.create_topic(TRANSACTION_STATE_TOPIC)
        producer: dict[str, Any] = {
            "producer_id": 7,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        asked: list[Any] = []

        def verify(question: Any, act: Callable[[Any], None], _deferred: object) -> None:
            asked.append(question)
            checked.append(act.args[2])  # type: ignore[attr-defined]
            act(type("Verdict", (), {"errors": {}, "shown": {}})())

        checked: list[Any] = []
        node.node.transaction_verifier.verify = verify  # type: ignore[method-assign, assignment]
        found = await produce(
            node, records(*[named(GOOD)] * count, named(99), **producer), transactional_id="tx"
        )
        assert found.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in found.record_errors] == [count]
        await produce(node, records(*[named(GOOD)] * count, **producer), transactional_id="tx")
        registry.failure = "gone"
        await trio.sleep(1)
        found = await produce(node, records(*[named(5)] * count, **producer), transactional_id="tx")
        assert found.error_code == ErrorCode.REQUEST_TIMED_OUT
        outcomes = [type(next(iter(each.values()))).__name__ for each in checked]
        assert outcomes == ["RejectedRecordsError", "ValidatedBatches", "KafkaError"]

    tell(story)


def test_a_refusal_of_a_producer_that_waits_for_nothing_closes_its_connection() -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        assert await node.ask(produce_request("a", records(named(GOOD)), acks=0), NEWEST) is None
        assert registry.asked == [GOOD]
        with pytest.raises(ProtocolError):
            await node.ask(produce_request("a", records(b"plain"), acks=0), NEWEST)

    tell(story)


def test_a_broker_without_a_registry_takes_nothing() -> None:
    async def story(node: HandlerNode, _: FakeRegistry) -> None:
        node.node.schema_validation = None
        for count in (FEW, MANY):
            found = await produce(node, records(*[named(GOOD)] * count))
            assert found.error_code == ErrorCode.INVALID_CONFIG
            assert "confluent.schema.registry.url" in str(found.error_message)

    tell(story)


@SIZES
def test_refused_batches_leave_no_garbage(count: int) -> None:
    async def story(node: HandlerNode, registry: FakeRegistry) -> None:
        content = records(*[named(OTHER)] * count)
        with counted_garbage() as left:
            for _ in range(10):
                assert (await produce(node, content)).error_code == ErrorCode.INVALID_RECORD
        assert {name: made for name, made in left.items() if made >= 10} == {}

    tell(story)
