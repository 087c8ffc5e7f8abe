"""Produce and Fetch as a client sees them: what is answered, when, and what is not."""

from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.fetch import AbortedTransaction as Told
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from log_service.storage.aborted_transactions import AbortedTransaction, AbortedTransactions
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import Story, batch, fetch_request, produce_request, tell, values_of


def test_what_is_produced_is_fetched() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        answer = await node.produce("a", batch(b"one", b"two"))
        assert (
            answer.error_code,
            answer.base_offset,
            answer.log_append_time_ms,
            answer.log_start_offset,
        ) == (0, 0, -1, 0)
        assert (await node.produce("a", batch(b"three"))).base_offset == 2
        found = await node.fetch("a", 0)
        assert values_of(found.records) == [b"one", b"two", b"three"]
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (3, 3, 0)

    tell_handlers(story)


def test_refusals_count_as_failures_where_kafka_counts_them() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", max_message_bytes="200", cleanup_policy="compact")
        partition = node.replicas.get_partition("a", 0)
        assert (
            await node.produce("a", batch(b"x" * 300, key=b"k"))
        ).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await node.fetch("a", 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (
            await node.fetch("a", 0, current_leader_epoch=9)
        ).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (partition.failed_append_count, partition.failed_read_count) == (0, 0)
        assert (
            await node.produce("a", batch(b"without a key"))
        ).error_code == ErrorCode.INVALID_RECORD
        assert (partition.failed_append_count, partition.failed_read_count) == (1, 0)

    tell_handlers(story)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_is_served(version: int) -> None:
    async def story(node: HandlerNode) -> None:
        topic_id = await node.create_topic("a")
        request = produce_request("a", batch(b"one"))
        request.topic_data[0].topic_id = topic_id
        response: ProduceResponse = await node.ask(request, version)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 0)

    tell_handlers(story)


def test_a_reader_of_committed_records_is_told_what_was_aborted() -> None:
    """Transactions of Apache Kafka, whose files came here."""

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        for value in (b"aborted", b"marker", b"later"):
            await node.produce("a", batch(value))
        log = node.replicas.get_partition("a", 0).log
        assert log is not None
        log.aborted_transactions = AbortedTransactions([AbortedTransaction(7, 0, 1, 2)])
        request = fetch_request("a", 0)
        assert (await node.ask(request, 12)).responses[0].partitions[0].aborted_transactions is None
        request.isolation_level = 1
        told: PartitionData = (await node.ask(request, 12)).responses[0].partitions[0]
        assert told.aborted_transactions == [Told(producer_id=7, first_offset=0)]
        assert values_of(told.records) == [b"aborted", b"marker", b"later"]
        for offset in (2, 3):
            request.topics[0].partitions[0].fetch_offset = offset
            assert (await node.ask(request, 12)).responses[0].partitions[
                0
            ].aborted_transactions == []

    tell_handlers(story)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_is_served(version: int) -> None:
    async def story(node: HandlerNode) -> None:
        topic_id = await node.create_topic("a")
        await node.produce("a", batch(b"one"))
        request = fetch_request("a", 0)
        request.topics[0].topic_id = topic_id
        response: FetchResponse = await node.ask(request, version)
        assert values_of(response.responses[0].partitions[0].records) == [b"one"]

    tell_handlers(story)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_that_do_not_exist_are_refused(acks: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        answer = await node.produce("a", batch(b"one"), acks=acks)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
        assert (await node.fetch("a", 0)).high_watermark == 0

    tell_handlers(story)


def test_acks_0_is_never_answered_and_stored() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        unanswered = await node.connect()
        await unanswered.send(produce_request("a", batch(b"quiet"), acks=0), 9)
        with trio.move_on_after(1) as waited:
            await unanswered.receive_frame()
        assert waited.cancelled_caught
        assert values_of((await node.fetch("a", 0)).records) == [b"quiet"]

    tell(story)


def test_acks_0_that_fails_closes_the_connection() -> None:
    async def story(node: Story) -> None:
        unanswered = await node.connect()
        await unanswered.send(produce_request("nowhere", batch(b"quiet"), acks=0), 9)
        assert await unanswered.is_closed()

    tell(story)


def test_partitions_are_answered_each_by_itself() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        request = ProduceRequest(
            acks=1,
            timeout_ms=1_000,
            topic_data=[
                TopicProduceData(
                    name="a",
                    partition_data=[
                        PartitionProduceData(index=0, records=batch(b"good")),
                        PartitionProduceData(index=7, records=batch(b"no such partition")),
                    ],
                ),
                TopicProduceData(
                    name="b",
                    partition_data=[PartitionProduceData(index=0, records=batch(b"no such topic"))],
                ),
            ],
        )
        response: ProduceResponse = await node.ask(request, 9)
        codes = [
            [answer.error_code for answer in topic.partition_responses]
            for topic in response.responses
        ]
        assert codes == [
            [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        ]

    tell_handlers(story)


def test_a_topic_id_that_is_not_known_is_told() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        answer = await node.produce("a", batch(b"one"), version=13)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (await node.fetch("a", 0, version=13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID

    tell_handlers(story)


def damaged(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (damaged(batch(b"one")), ErrorCode.CORRUPT_MESSAGE),
        (batch(b"one") * 2, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"one", is_control=True), ErrorCode.INVALID_RECORD),
    ],
)
def test_records_that_make_no_sense_are_refused(records: bytes, code: ErrorCode) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        answer = await node.produce("a", records)
        assert answer.error_code == code
        assert answer.error_message
        assert (await node.fetch("a", 0)).high_watermark == 0

    tell_handlers(story)


def test_records_without_keys_are_named_one_by_one() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", cleanup_policy="compact")
        answer = await node.produce("a", batch(b"one", b"two"))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in answer.record_errors] == [0, 1]

    tell_handlers(story)


def test_a_request_with_a_transactional_id_may_hold_plain_batches() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        request = produce_request("a", batch(b"one"))
        request.transactional_id = "tx"
        response: ProduceResponse = await node.ask(request, 9)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    tell_handlers(story)


def test_an_idempotent_batch_sent_twice_is_stored_once() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        once = batch(b"one", producer_id=5, producer_epoch=0, base_sequence=0)
        first, second = await node.produce("a", once), await node.produce("a", once)
        assert (first.error_code, second.error_code, second.base_offset) == (0, 0, 0)
        gap = await node.produce(
            "a", batch(b"nine", producer_id=5, producer_epoch=0, base_sequence=9)
        )
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await node.fetch("a", 0)).high_watermark == 1

    tell_handlers(story)


def test_append_time_is_stamped_and_told() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", message_timestamp_type="LogAppendTime")
        answer = await node.produce("a", batch(b"one", timestamp_ms=5))
        assert answer.log_append_time_ms > 1_600_000_000_000

    tell_handlers(story)


def test_with_flush_messages_1_an_answer_waits_for_the_sync() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1")
        files: Any = node.broker.env.files
        files.sync_seconds = (0.050, 0.050)
        began = trio.current_time()
        assert (await node.produce("a", batch(b"one"), acks=1)).error_code == 0
        assert trio.current_time() - began >= 0.050

    tell(story)


def test_an_answer_that_waits_for_a_sync_too_long_is_timed_out() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1")
        files: Any = node.broker.env.files
        files.sync_seconds = (5, 5)
        answer = await node.produce("a", batch(b"one"))
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        files.sync_seconds = (0, 0)
        await trio.sleep(6)
        assert (await node.fetch("a", 0)).high_watermark == 1

    tell(story)


def test_a_log_directory_that_fails_is_a_storage_error_and_the_others_go_on() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 4)
        partitions = [node.broker.replicas.get_partition("a", index) for index in range(4)]
        files: Any = node.broker.env.files
        files.fail_next("append", containing="/data/second/a-")
        codes = [
            (await node.produce("a", batch(b"one"), partition=index)).error_code
            for index in range(4)
        ]
        assert ErrorCode.KAFKA_STORAGE_ERROR in codes
        codes = [
            (await node.produce("a", batch(b"two"), partition=index)).error_code
            for index in range(4)
        ]
        assert codes == [
            ErrorCode.KAFKA_STORAGE_ERROR if partition.is_offline else 0 for partition in partitions
        ]
        assert sorted(partition.is_offline for partition in partitions) == [
            False,
            False,
            True,
            True,
        ]
        for partition in partitions:
            found = await node.fetch("a", 0, partition=partition.topic_partition.partition)
            assert found.error_code == (
                ErrorCode.KAFKA_STORAGE_ERROR if partition.is_offline else 0
            )

    tell(story, log_dirs="/data/kafka,/data/second")


def test_a_fetch_waits_for_records_and_answers_when_they_come() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        waiting = await node.connect()
        await waiting.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(10)
        began = trio.current_time()
        await node.produce("a", batch(b"now"))
        response: FetchResponse = await waiting.receive()
        assert values_of(response.responses[0].partitions[0].records) == [b"now"]
        assert trio.current_time() - began < 1

    tell(story)


def test_a_fetch_that_nobody_answers_comes_back_empty_after_its_time() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        began = trio.current_time()
        found = await node.fetch("a", 0, max_wait_ms=500)
        assert values_of(found.records) == []
        assert 0.5 <= trio.current_time() - began < 0.6

    tell(story)


def test_a_fetch_waits_for_min_bytes_over_all_its_partitions() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=300,
            max_bytes=1 << 20,
            topics=[
                FetchTopic(
                    topic="a",
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
                        for index in (0, 1)
                    ],
                )
            ],
        )
        waiting = await node.connect()
        await waiting.send(request, 12)
        await node.produce("a", batch(b"x" * 100), partition=0)
        with trio.move_on_after(1) as waited:
            await waiting.receive_frame()
        assert waited.cancelled_caught
        await node.produce("a", batch(b"y" * 100), partition=1)
        response: FetchResponse = await waiting.receive()
        assert [values_of(found.records) for found in response.responses[0].partitions] == [
            [b"x" * 100],
            [b"y" * 100],
        ]

    tell(story)


def test_requests_behind_a_waiting_fetch_are_served_meanwhile() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.client.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await node.client.send(produce_request("a", batch(b"behind")), 9)
        fetched: FetchResponse = await node.client.receive()
        produced: ProduceResponse = await node.client.receive()
        assert values_of(fetched.responses[0].partitions[0].records) == [b"behind"]
        assert produced.responses[0].partition_responses[0].base_offset == 0

    tell(story)


def test_a_client_that_leaves_takes_its_waiting_fetch_along() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        leaving = await node.connect()
        await leaving.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(1)
        assert len(node.broker.replicas.delayed_fetches) == 1
        leaving.close()
        await trio.sleep(1)
        assert len(node.broker.replicas.delayed_fetches) == 0

    tell(story)


def test_a_batch_larger_than_the_limit_is_sent_whole_when_it_is_the_first() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"x" * 5_000))
        await node.produce("a", batch(b"y" * 5_000))
        found = await node.fetch("a", 0, max_bytes=100)
        assert values_of(found.records) == [b"x" * 5_000]

    tell_handlers(story)


def test_the_batch_that_holds_the_offset_is_sent_whole() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"one", b"two", b"three"))
        assert values_of((await node.fetch("a", 1)).records) == [b"one", b"two", b"three"]

    tell_handlers(story)


def test_fetch_offsets_and_epochs_out_of_range_are_told() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"one"))
        assert (await node.fetch("a", 5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (
            await node.fetch("a", 0, current_leader_epoch=9)
        ).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await node.fetch("z", 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        diverged = await node.fetch("a", 9, last_fetched_epoch=0)
        assert diverged.diverging_epoch is not None
        assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 1)

    tell_handlers(story)


def test_a_session_names_only_what_changed() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", 2)
        topics = [
            FetchTopic(
                topic="a",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
                    for index in (0, 1)
                ],
            )
        ]
        full: FetchResponse = await node.ask(FetchRequest(session_epoch=0, topics=topics), 12)
        assert full.session_id != 0
        assert len(full.responses[0].partitions) == 2
        quiet: FetchResponse = await node.ask(
            FetchRequest(session_id=full.session_id, session_epoch=1), 12
        )
        assert quiet.responses == []
        await node.produce("a", batch(b"one"), partition=1)
        changed: FetchResponse = await node.ask(
            FetchRequest(session_id=full.session_id, session_epoch=2), 12
        )
        assert [found.partition_index for found in changed.responses[0].partitions] == [1]
        broken: FetchResponse = await node.ask(
            FetchRequest(session_id=full.session_id, session_epoch=7), 12
        )
        assert (broken.error_code, broken.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])

    tell_handlers(story)


def test_a_waiting_fetch_of_a_deleted_topic_is_answered() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        waiting = await node.connect()
        await waiting.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(1)
        await node.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 6
        )
        response: FetchResponse = await waiting.receive()
        assert (
            response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    tell(story)


def test_clients_do_not_write_to_internal_topics() -> None:
    async def story(node: Story) -> None:
        await node.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
        answer = await node.produce("__consumer_offsets", batch(b"mine", key=b"k"))
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    tell(story)
