"""A replica moves between log directories while a producer writes and a consumer waits.

After a kill nothing acknowledged is gone.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    NewTopic,
    TopicPartition,
    TopicPartitionReplica,
)
from tests.helpers.broker_process import BrokerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

TOPIC = "wandering"
PARTITION = TopicPartition(TOPIC, 0)
MOVES = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path, properties={"log.dirs": f"{tmp_path}/first,{tmp_path}/second"}
    ) as running:
        yield running


class Writer(threading.Thread):
    """Sends numbered records until it is told to stop; ``acknowledged`` are those that were."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, int] = {}
        self.error: BaseException | None = None
        self._servers = bootstrap
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            with BlockingProducer(self._servers, linger_ms=0) as producer:
                number = 0
                while not self._stopping.is_set():
                    sent = [
                        (each, producer.send(TOPIC, b"%d" % each, partition=0))
                        for each in range(number, number + 20)
                    ]
                    for each, delivery in sent:
                        self.acknowledged[each] = delivery.wait(30_000).offset
                    number += 20
        except BaseException as error:  # noqa: BLE001 - told to the test's thread
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert self.error is None, self.error


def places(admin: BlockingAdmin) -> list[str]:
    return [
        path for path, found in admin.describe_log_dirs()[1].items() if PARTITION in found.replicas
    ]


def move(admin: BlockingAdmin) -> None:
    """Move the replica to the other directory and wait until it is there."""
    [present] = places(admin)
    [other] = set(admin.describe_log_dirs()[1]) - {present}
    admin.alter_replica_log_dirs({TopicPartitionReplica(TOPIC, 0, 1): other})
    deadline = time.monotonic() + 30
    while places(admin) != [other]:
        assert time.monotonic() < deadline, "the replica never arrived"
        time.sleep(0.01)


def read(bootstrap: str, count: int) -> dict[int, int]:
    """Offsets of the values, from the beginning."""
    found: dict[int, int] = {}
    with BlockingConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            for record in consumer.poll(timeout_ms=500):
                number = int(bytes(record.value or b""))
                assert number not in found, f"{number} is there twice"
                found[number] = record.offset
    return found


@pytest.mark.parametrize(
    "flush_messages",
    ["1", "9223372036854775807"],
    ids=["every-record-synced", "left-to-the-system"],
)
def test_nothing_acknowledged_is_lost_on_the_way(
    broker: BrokerProcess, flush_messages: str
) -> None:
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.create_topics(
            [NewTopic(name=TOPIC, partition_count=1, configs={"flush.messages": flush_messages})]
        )
        writer = Writer(broker.bootstrap)
        writer.start()
        for _ in range(MOVES):
            move(admin)
        writer.stop()
    assert len(writer.acknowledged) >= 100
    broker.kill()
    broker.start()
    assert read(broker.bootstrap, len(writer.acknowledged)) == writer.acknowledged
    with BlockingAdmin(broker.bootstrap) as admin:
        move(admin)
    assert broker.stop() == 0
    assert "Traceback" not in broker.log
    assert "ERROR" not in broker.log
