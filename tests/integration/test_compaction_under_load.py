"""Compaction runs while others write, read and kill.

Readers never see torn or unordered records, and no key loses its latest value.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic, TopicPartition
from log_service.records.batch import iterate_headers, iterate_records
from tests.helpers.broker_process import BrokerProcess

KEYS = 100
ROUNDS = 60
PLACE = TopicPartition("state", 0)
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "20",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, properties={"log.cleaner.backoff.ms": "20"}) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics([NewTopic(name=PLACE.topic, partition_count=1, configs=CONFIGS)])
        yield running


def overwrite(bootstrap: str, first: int, acknowledged: list[int]) -> None:
    """Write every key once a round; each round is acknowledged, and noted, before the next."""
    with BlockingProducer(bootstrap, linger_ms=0, compression="lz4") as producer:
        for number in range(first, first + ROUNDS):
            for key in range(KEYS):
                producer.send(PLACE.topic, key=b"key %d" % key, value=b"round %d " % number * 20)
            producer.flush()
            acknowledged.append(number)


def read_all(bootstrap: str) -> tuple[dict[bytes | None, bytes | None], int]:
    """Return what a reader from the beginning holds at the end, and how many records it read.

    The end is where the log ends when the reader comes there: short of it a record may be missing
    whose key was written again meanwhile.
    """
    state: dict[bytes | None, bytes | None] = {}
    start, last_offset, count = 0, -1, 0
    with BlockingAdmin(bootstrap) as admin:
        while start < (end := admin.describe_offsets([PLACE.topic])[PLACE].high_watermark):
            for raw in admin.read_range(PLACE, start, end):
                for position, _ in iterate_headers(raw.batches):
                    for record in iterate_records(raw.batches, position):
                        assert record.offset > last_offset
                        last_offset, count = record.offset, count + 1
                        state[record.key] = record.value
            start = end
    return state, count


def latest(number: int) -> dict[bytes | None, bytes | None]:
    return {b"key %d" % key: b"round %d " % number * 20 for key in range(KEYS)}


def round_of(value: bytes | None) -> int:
    assert value is not None
    return int(value.split()[1])


def test_readers_and_a_killed_broker_find_the_latest_of_every_key(broker: BrokerProcess) -> None:
    done = threading.Event()
    acknowledged: list[int] = [0]
    counts: list[int] = []

    def read_on() -> None:
        while not done.is_set():
            known = acknowledged[-1]
            state, count = read_all(broker.bootstrap)
            counts.append(count)
            assert known == 0 or all(round_of(state[key]) >= known for key in latest(0))

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        overwrite(broker.bootstrap, 0, acknowledged)
        await_compacted(broker.bootstrap)
    finally:
        done.set()
        reader.join(30)
    assert counts
    for number in (1, 2):  # killed first where all is compacted, then in the middle of a pass
        assert read_all(broker.bootstrap)[0] == latest(number * ROUNDS - 1)
        broker.kill()
        broker.start()
        assert read_all(broker.bootstrap)[0] == latest(number * ROUNDS - 1)
        overwrite(broker.bootstrap, number * ROUNDS, acknowledged)
    await_compacted(broker.bootstrap)
    assert read_all(broker.bootstrap)[0] == latest(3 * ROUNDS - 1)
    assert "not compacted any more" not in broker.log


def await_compacted(bootstrap: str) -> None:
    """Wait until few superseded records are left: those of the active segment, and what they
    supersede.
    """
    deadline = time.monotonic() + 40
    while (count := read_all(bootstrap)[1]) > ROUNDS * KEYS / 4:
        assert time.monotonic() < deadline, f"{count} records are left"
        time.sleep(0.1)
