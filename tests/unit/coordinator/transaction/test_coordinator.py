"""A shard of the transaction coordinator begins, ends, fences, times out and forgets.

It loads state that another node left.
"""

from dataclasses import replace

import pytest

from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.coordinator.transaction.listing import Search, filters_of, unknown_states
from log_service.coordinator.transaction.records import TransactionRecord, decode, encode
from log_service.coordinator.transaction.transaction import Transaction, TransactionState
from log_service.coordinator.transaction.transaction_coordinator import (
    FORGOTTEN_CHARACTERS_PER_STEP,
    FORGOTTEN_PER_STEP,
)
from log_service.protocol.messages.list_transactions import ListTransactionsRequest
from log_service.state_machine.decision import Decision, ReplayContext
from tests.unit.coordinator.transaction.transaction_story import (
    ORDERS,
    REFUNDS,
    TIMEOUT_MS,
    TXN,
    TransactionStory,
)

BUSY, NONE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE
LAST_EPOCH = 32_766


def begun(story: TransactionStory) -> tuple[int, int]:
    """Have a producer begin a transaction in both partitions."""
    producer_id, epoch, code = story.init()
    assert code is NONE
    assert story.add(producer_id, epoch, ORDERS, REFUNDS) is NONE
    return producer_id, epoch


@pytest.mark.parametrize(("is_commit", "state"), [(True, "Commit"), (False, "Abort")])
def test_a_transaction_ends_when_all_its_partitions_have_their_marker(
    is_commit: bool, state: str
) -> None:
    story = TransactionStory()
    producer_id, epoch = begun(story)
    assert story.end(producer_id, epoch, is_commit=is_commit) == (producer_id, epoch + 1, NONE)
    assert story.stands() == (f"Prepare{state}", producer_id, epoch + 1)
    (due,) = story.due
    assert (due.producer_epoch, due.is_commit, due.partitions) == (
        epoch + 1,
        is_commit,
        (ORDERS, REFUNDS),
    ), "markers carry the next epoch"
    assert story.add(producer_id, epoch + 1, ORDERS) is BUSY
    story.write(due, ORDERS)
    assert story.stands()[0] == f"Prepare{state}"
    story.write(due, REFUNDS)
    assert story.stands() == (f"Complete{state}", producer_id, epoch + 1)
    assert story.end(producer_id, epoch, is_commit=is_commit) == (producer_id, epoch + 1, NONE), (
        "a repeated request"
    )
    assert story.add(producer_id, epoch + 1, ORDERS) is NONE


def test_an_old_client_keeps_its_epoch() -> None:
    story = TransactionStory()
    producer_id, epoch, _ = story.init()
    story.add(producer_id, epoch, ORDERS, client_version=0)
    assert story.end(producer_id, epoch, is_commit=True, version=4) == (-1, -1, NONE)
    assert [(due.producer_epoch, due.transaction_version) for due in story.due] == [(epoch, 0)]
    story.write_all()
    assert story.stands() == ("CompleteCommit", producer_id, epoch)


def test_an_abort_without_a_transaction_raises_the_epoch_and_owes_no_marker() -> None:
    story = TransactionStory()
    producer_id, epoch, _ = story.init()
    assert story.end(producer_id, epoch, is_commit=False) == (producer_id, epoch + 1, NONE)
    story.advance(0)
    assert not story.due
    assert story.stands() == ("CompleteAbort", producer_id, epoch + 1)


@pytest.mark.parametrize(("version", "claims_epoch"), [(0, False), (2, False), (2, True)])
def test_a_second_producer_aborts_the_transaction_of_the_first(
    version: int, claims_epoch: bool
) -> None:
    story = TransactionStory(server_version=version)
    producer_id, epoch = begun(story)
    assert story.init(*((producer_id, epoch) if claims_epoch else ())) == (-1, -1, BUSY)
    assert story.stands() == ("PrepareAbort", producer_id, epoch + 1)
    assert story.init() == (-1, -1, BUSY), "until the markers are written"
    story.write_all()
    assert story.stands() == ("CompleteAbort", producer_id, epoch + 1)
    assert story.init() == (producer_id, epoch + 2, NONE)
    assert story.add(producer_id, epoch, ORDERS) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted_at_the_next_look() -> None:
    story = TransactionStory()
    producer_id, epoch = begun(story)
    story.advance(TIMEOUT_MS)
    assert story.stands()[0] == "Ongoing"
    story.advance(story.config.abort_interval_ms)
    assert story.stands() == ("PrepareAbort", producer_id, epoch + 1)
    story.write_all()
    assert story.end(producer_id, epoch, is_commit=True)[2] is ErrorCode.INVALID_TXN_STATE
    assert story.end(producer_id, epoch, is_commit=False) == (producer_id, epoch + 1, NONE)


def test_ids_that_no_producer_uses_are_forgotten_after_a_while() -> None:
    story = TransactionStory()
    story.init(txn="unused")
    story.advance(story.config.expiration_ms - 1_000)
    story.init(txn="used")
    story.advance(story.config.expiry_interval_ms)
    assert list(story.shard.transactions) == ["used"]
    assert story.log[-1][1] is None, "a tombstone"
    story.restart()
    assert list(story.shard.transactions) == ["used"]


@pytest.mark.parametrize(("size", "batch_count"), [(10, 2), (20_000, 8)])
def test_ids_are_forgotten_in_batches_of_a_bounded_size(size: int, batch_count: int) -> None:
    """Five hundred of the longest ids were one batch of 16 MB.

    A log with smaller segments refused it for ever.
    """
    count = FORGOTTEN_PER_STEP + 3 if size < 100 else 100
    story, sizes = TransactionStory(), []
    for number in range(count):
        story.init(txn=f"{number:0{size}}")
    settle = story.settle

    def measured(decision: Decision[TransactionRecord]) -> None:
        sizes.append(sum(len(record.transactional_id) for record in decision.records))
        assert len(decision.records) <= FORGOTTEN_PER_STEP
        settle(decision)

    story.settle = measured  # type: ignore[method-assign]
    story.advance(story.config.expiration_ms + 2 * story.config.expiry_interval_ms)
    assert not story.shard.transactions
    assert len([size for size in sizes if size]) == batch_count
    assert max(sizes) <= FORGOTTEN_CHARACTERS_PER_STEP


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_new_coordinator_goes_on_to_end_what_the_old_one_left(is_commit: bool) -> None:
    story = TransactionStory()
    producer_id, epoch = begun(story)
    story.end(producer_id, epoch, is_commit=is_commit)
    story.write(story.due[0], ORDERS)
    story.restart()
    (due,) = story.due
    assert (due.is_commit, due.producer_epoch, due.partitions) == (
        is_commit,
        epoch + 1,
        (ORDERS, REFUNDS),
    ), "the log tells of no marker"
    story.write_all()
    assert story.stands() == (
        "CompleteCommit" if is_commit else "CompleteAbort",
        producer_id,
        epoch + 1,
    )
    assert story.end(producer_id, epoch, is_commit=is_commit) == (producer_id, epoch + 1, NONE), (
        "a repeated request"
    )


def test_a_new_coordinator_gives_the_producer_the_id_that_the_old_one_promised() -> None:
    story = TransactionStory()
    producer_id, _ = begun(story)
    known = replace(story.transaction(), producer_epoch=LAST_EPOCH)
    record = TransactionRecord(transactional_id=TXN, transaction=known, value_version=1)
    story.shard.replay(record, ReplayContext(0))
    promised = (producer_id + 1, 0, NONE)
    assert story.end(producer_id, LAST_EPOCH, is_commit=True) == promised
    story.restart()
    story.write_all()
    assert story.stands() == ("CompleteCommit", *promised[:2])
    assert story.end(producer_id, LAST_EPOCH, is_commit=True) == promised, "a repeated request"


def test_a_new_coordinator_completes_an_abort_that_owes_no_marker() -> None:
    story = TransactionStory()
    producer_id, epoch, _ = story.init()
    story.end(producer_id, epoch, is_commit=False)
    del story.log[2:]  # the old coordinator stopped before it stored the completion
    story.restart()
    assert story.stands() == ("CompleteAbort", producer_id, epoch + 1)


def test_a_new_coordinator_ends_nothing_that_began_behind_an_end_and_nothing_that_is_forgotten() -> (
    None
):
    story = TransactionStory()
    producer_id, epoch = begun(story)
    story.end(producer_id, epoch, is_commit=True)
    story.write_all()
    assert story.add(producer_id, epoch + 1, ORDERS) is NONE
    story.restart()
    assert not story.due
    assert story.stands() == ("Ongoing", producer_id, epoch + 1)
    story.log.append(encode(TransactionRecord(transactional_id=TXN, transaction=None)))
    story.restart()
    assert not story.shard.transactions


def test_a_producer_that_was_fenced_is_told_so_where_partitions_are_verified() -> None:
    story = TransactionStory()
    producer_id, epoch = begun(story)
    assert story.verify(producer_id, epoch, ORDERS) == {ORDERS: NONE}
    assert story.verify(producer_id, epoch - 1, ORDERS) is ErrorCode.PRODUCER_FENCED


def test_a_new_coordinator_fences_a_producer_that_asks_for_its_epoch_again() -> None:
    story = TransactionStory()
    producer_id, epoch, _ = story.init()
    assert story.init(producer_id, epoch) == (producer_id, epoch + 1, NONE)
    assert story.init(producer_id, epoch) == (producer_id, epoch + 1, NONE), "a repeated request"
    story.restart()
    assert story.init(producer_id, epoch)[2] is ErrorCode.PRODUCER_FENCED, (
        "the last epoch is not stored"
    )


def test_late_news_of_markers_ends_no_later_transaction() -> None:
    story = TransactionStory()
    producer_id, epoch = begun(story)
    story.end(producer_id, epoch, is_commit=True)
    first = story.due.pop()
    story.write(first)
    story.write(first)
    assert story.add(producer_id, epoch + 1, ORDERS) is NONE
    story.end(producer_id, epoch + 1, is_commit=False)
    story.write(first)
    assert story.stands()[0] == "PrepareAbort"


def test_without_a_producer_id_at_hand_the_client_asks_again() -> None:
    story = TransactionStory()
    story.has_producer_ids = False
    assert story.init() == (-1, -1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not story.log
    story.has_producer_ids = True
    assert story.init()[2] is NONE


# Records


@pytest.mark.parametrize(("server_version", "stored"), [(0, 0), (1, 1), (2, 1)])
def test_the_level_of_the_cluster_decides_the_version_of_a_record(
    server_version: int, stored: int
) -> None:
    story = TransactionStory(server_version=server_version)
    begun(story)
    assert {int.from_bytes(value[:2]) for _, value in story.log if value is not None} == {stored}


def test_records_are_those_of_apache_kafka_to_the_byte() -> None:
    known = Transaction(
        transactional_id="t", producer_id=3, producer_epoch=1, timeout_ms=60_000, last_update_ms=5, start_ms=4,
        state=TransactionState.ONGOING, partitions=frozenset({ORDERS}), previous_producer_id=3, client_version=2,
    )  # fmt: skip
    key, value = encode(TransactionRecord(transactional_id="t", transaction=known))
    assert key.hex() == "0000000174"
    assert value is not None
    assert value.hex() == (
        "0001" "0000000000000003" "0001" "0000ea60" "01" "02" "07" "6f7264657273" "02" "00000000" "00"
        "0000000000000005" "0000000000000004" "02" "00" "08" "0000000000000003" "02" "02" "0002"
    )  # fmt: skip
    empty = Transaction(
        transactional_id="t", producer_id=3, producer_epoch=1, timeout_ms=60_000, last_update_ms=5
    )
    _, value = encode(TransactionRecord(transactional_id="t", transaction=empty, value_version=0))
    assert value is not None
    assert (
        value.hex() == "0000000000000000000300010000ea6000ffffffff0000000000000005ffffffffffffffff"
    )


@pytest.mark.parametrize(
    ("key", "value"), [("000100017a", ""), ("000000017a", "0002"), ("000000017a", "ffff")]
)
def test_records_of_other_versions_are_left_alone(key: str, value: str) -> None:
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) is None


@pytest.mark.parametrize(
    "value", ["", "00", "0000", "0001000000000000000300010000ea600600" + "00" * 17]
)
def test_a_value_that_makes_no_sense_is_named(value: str) -> None:
    with pytest.raises(ProtocolError, match="TransactionLogValue"):
        decode(bytes.fromhex("000000017a"), bytes.fromhex(value))


# What admin clients are told


def test_a_transaction_is_described_with_its_partitions() -> None:
    story = TransactionStory(now_ms=7)
    producer_id, epoch = begun(story)
    described = story.ask("describe", TXN)
    assert (described.error_code, described.transactional_id, described.transaction_state) == (
        0,
        TXN,
        "Ongoing",
    )
    assert (described.producer_id, described.producer_epoch) == (producer_id, epoch)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [
        ("orders", [0]),
        ("refunds", [2]),
    ]
    assert (described.transaction_timeout_ms, described.transaction_start_time_ms) == (
        TIMEOUT_MS,
        1_000_007,
    )
    unknown = story.ask("describe", "nothing")
    assert (unknown.error_code, unknown.transactional_id) == (
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        "nothing",
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["payments", "reports"]),
        ({"state_filters": ["Ongoing"]}, ["payments"]),
        ({"state_filters": ["Ongoing", "ongoing"]}, ["payments"]),
        ({"state_filters": ["ongoing"]}, []),
        ({"producer_id_filters": [1_001, 9]}, ["reports"]),
        ({"duration_filter": 0}, ["payments", "reports"]),
        ({"duration_filter": 99}, ["payments", "reports"]),
        ({"duration_filter": 100}, ["reports"]),
        ({"transactional_id_pattern": "p.*"}, ["payments"]),
        ({"transactional_id_pattern": "pay"}, []),
        ({"transactional_id_pattern": ""}, ["payments", "reports"]),
    ],
)
def test_ids_are_listed_by_filters(filters: dict[str, object], expected: list[str]) -> None:
    if filters.get("transactional_id_pattern"):
        pytest.importorskip("re2")
    story = TransactionStory()
    begun(story)
    story.init(txn="reports")
    request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
    chosen = filters_of(request)
    search = Search(chosen.pattern, story.shard.listed(chosen, story.decision().wall_ms + 100))
    assert search.take_step()
    assert [each.transactional_id for each in search.found] == expected
    assert unknown_states(request) == [name for name in request.state_filters if name == "ongoing"]


def test_a_transaction_of_this_very_moment_runs_no_longer_than_no_time() -> None:
    story = TransactionStory()
    begun(story)
    now_ms = story.transaction().start_ms
    for longer_than_ms, at_ms, expected in (
        (0, now_ms, []),
        (0, now_ms + 1, [TXN]),
        (-1, now_ms - 50, [TXN]),
    ):
        listed = story.shard.listed(
            filters_of(ListTransactionsRequest(duration_filter=longer_than_ms)), at_ms
        )
        assert [each.transactional_id for each in listed] == expected, (
            "a clock may have been set back"
        )


def test_a_pattern_that_a_backtracking_engine_would_not_end_holds_nothing_up() -> None:
    pytest.importorskip("re2")
    story = TransactionStory()
    story.init(txn="a" * 60 + "!")
    request = ListTransactionsRequest(transactional_id_pattern="(a+)+$")
    search = Search("(a+)+$", story.shard.listed(filters_of(request), story.decision().wall_ms))
    assert search.take_step()
    assert search.found == []
    with pytest.raises(KafkaError, match="not valid"):
        filters_of(ListTransactionsRequest(transactional_id_pattern=r"(a)\1"))
