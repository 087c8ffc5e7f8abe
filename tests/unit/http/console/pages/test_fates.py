"""Markers tell how the transactions of records ended."""

from log_service.client.consumer.records import ConsumerRecord, LogRecord
from log_service.http.console.pages.records.fates import Fates
from log_service.records.batch import parse_header
from log_service.records.builder import build_batch
from log_service.records.control import ControlType, control_key


def record(offset: int, producer_id: int, partition: int = 0) -> LogRecord:
    return _placed(offset, producer_id, partition, b"k", is_control=False)


def marker(kind: ControlType, offset: int, producer_id: int, partition: int = 0) -> LogRecord:
    return _placed(offset, producer_id, partition, control_key(kind), is_control=True)


def _placed(
    offset: int, producer_id: int, partition: int, key: bytes, *, is_control: bool
) -> LogRecord:
    value = b"\0\0\0\0\0\1"
    batch = build_batch(
        [(0, key, value)],
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=producer_id >= 0,
        is_control=is_control,
    )
    plain = ConsumerRecord("t", partition, offset, 0, "CreateTime", key, value, (), 0)
    return LogRecord.of(plain, parse_header(batch))


def test_the_next_marker_of_the_same_producer_and_partition_counts() -> None:
    fates = Fates()
    shown = [record(0, 1), record(1, 2), record(2, -1), record(3, 1, partition=1), record(6, 1)]
    log = [
        shown[0], shown[1], shown[2], shown[3],
        marker(ControlType.ABORT, 4, 1), marker(ControlType.COMMIT, 5, 2), shown[4],
    ]  # fmt: skip
    for each in log:
        fates.note(each)
    found = [fates.of(each) for each in shown]
    assert found == ["aborted", "committed", "", "open", "open"]
    assert fates.of(log[4]) == "", "a marker has no transaction of its own"


def test_reading_goes_on_until_the_ends_that_were_asked_for_are_known() -> None:
    fates = Fates()
    fates.ask(record(0, -1))
    fates.ask(record(0, 1)._replace(value=b"other"))
    assert fates.has_open
    fates.note(marker(ControlType.COMMIT, 1, 2))
    assert fates.has_open
    fates.note(marker(ControlType.ABORT, 2, 1))
    assert not fates.has_open
