"""A partition keeps its producers, times and leader epochs through restarts.

They are the same after a clean stop, a kill, and lost files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from log_service.records.compression import Codec
from tests.helpers.broker_process import BrokerProcess
from tests.integration import confluent
from tests.integration.record_requests import (
    THEN,
    batch,
    idempotent,
    offsets_request,
    produce_request,
)
from tests.integration.wire import Wire

OUT_OF_ORDER, BAD_EPOCH = 45, 47
FOREVER = "-1"


def kill(broker: BrokerProcess) -> None:
    broker.kill()


def stop(broker: BrokerProcess) -> None:
    assert broker.stop() == 0


def kill_and_lose(*suffixes: str) -> Callable[[BrokerProcess], None]:
    def lose(broker: BrokerProcess) -> None:
        broker.kill()
        for path in files_of(broker, *suffixes):
            path.unlink()

    return lose


def stop_and_lose(*suffixes: str) -> Callable[[BrokerProcess], None]:
    def lose(broker: BrokerProcess) -> None:
        stop(broker)
        lost = files_of(broker, *suffixes)
        assert lost, "there was something to lose"
        for path in lost:
            path.unlink()

    return lose


def files_of(broker: BrokerProcess, *suffixes: str) -> list[Path]:
    return [path for path in broker.directory.glob("data/t-0/*") if path.suffix in suffixes]


def told(wire: Wire, records: bytes) -> tuple[int, int, int]:
    """(code, base offset, log append time) of a produce."""
    answer = wire.ask(produce_request("t", records), 12).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset, answer.log_append_time_ms


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        pytest.param("CreateTime", stop, id="stop"),
        pytest.param("CreateTime", kill, id="kill"),
        pytest.param("CreateTime", kill_and_lose(".snapshot"), id="kill without snapshots"),
        pytest.param("CreateTime", stop_and_lose(".snapshot"), id="stop without snapshots"),
        pytest.param("LogAppendTime", stop, id="stop, stamped times"),
        pytest.param(
            "LogAppendTime", kill_and_lose(".snapshot"), id="kill without snapshots, stamped times"
        ),
    ],
)
def test_producers_are_known_again(
    broker: BrokerProcess, kind: str, end: Callable[[BrokerProcess], None]
) -> None:
    """All five batches in flight are acknowledged with their first offset and time.

    Gaps and old epochs are refused.
    """
    confluent.create_topic(broker.bootstrap, "t", message_timestamp_type=kind, retention_ms=FOREVER)
    sequences = range(0, 14, 2)
    with Wire(broker.bootstrap) as wire:
        first = {sequence: told(wire, idempotent(1, sequence, 2)) for sequence in sequences}
        assert told(wire, idempotent(2, 0, epoch=4))[:2] == (0, 14)
    end(broker)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        for sequence in list(sequences)[-5:]:
            code, offset, time_ms = told(wire, idempotent(1, sequence, 2))
            assert (code, offset) == (0, first[sequence][1])
            assert time_ms == (THEN if kind == "CreateTime" else first[sequence][2])
        assert told(wire, idempotent(1, 15))[0] == OUT_OF_ORDER
        assert told(wire, idempotent(1, 0, 2))[0] == OUT_OF_ORDER
        assert told(wire, idempotent(2, 1, epoch=3))[0] == BAD_EPOCH
        assert told(wire, idempotent(2, 1, epoch=5))[0] == OUT_OF_ORDER
        assert told(wire, idempotent(2, 0, epoch=5))[:2] == (0, 15)
        assert told(wire, idempotent(1, 14))[:2] == (0, 16)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(stop, id="stop"),
        pytest.param(kill_and_lose(".index", ".timeindex"), id="kill without indexes"),
        pytest.param(stop_and_lose(".index", ".timeindex"), id="stop without indexes"),
    ],
)
def test_times_are_found_again(broker: BrokerProcess, end: Callable[[BrokerProcess], None]) -> None:
    """Over several segments, compressed batches, times that go back and equal ones."""
    confluent.create_topic(
        broker.bootstrap,
        "t",
        segment_bytes="1048576",
        index_interval_bytes="100",
        retention_ms=FOREVER,
    )
    with Wire(broker.bootstrap) as wire:
        for number in range(16):
            time_ms = THEN + (number * 7) % 11
            codec = Codec.ZSTD if number % 3 else Codec.NONE
            answer = told(
                wire, batch(time_ms, time_ms + 3, time_ms + 1, value=b"x" * 100_000, codec=codec)
            )
            assert answer[:2] == (0, number * 3)
    with Wire(broker.bootstrap) as wire:
        before = offsets(wire)
    end(broker)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        assert offsets(wire) == before
    assert before[THEN + 13] == (10, THEN + 13)
    assert before[-3] == (10, THEN + 13)
    assert before[THEN + 14] == (-1, -1)


def offsets(wire: Wire) -> dict[int, Any]:
    """(offset, timestamp) for each time asked for."""
    asked = [-3, *range(THEN - 1, THEN + 15)]
    found = [
        wire.ask(request, 7).topics[0].partitions[0] for request in offsets_request("t", *asked)
    ]
    return {time: (one.offset, one.timestamp) for time, one in zip(asked, found, strict=True)}


def test_every_leader_epoch_ends_where_the_next_begins(broker: BrokerProcess) -> None:
    """An unclean stop begins a new epoch; a clean one may."""
    confluent.create_topic(broker.bootstrap, "t", retention_ms=FOREVER)
    starts = []
    for end in (kill, stop, kill, None):
        with Wire(broker.bootstrap) as wire:
            (latest,) = wire.ask(offsets_request("t", -1)[0], 7).topics[0].partitions
            starts.append((latest.leader_epoch, latest.offset))
            told(wire, batch(THEN, THEN))
        if end is not None:
            end(broker)
            broker.start()
    epochs = [epoch for epoch, _ in starts]
    assert epochs == sorted(epochs)
    assert epochs[1] > epochs[0], "a kill begins an epoch"
    assert epochs[3] > epochs[2]
    with Wire(broker.bootstrap) as wire:
        for epoch in sorted(set(epochs)):
            later = [offset for other, offset in starts if other > epoch]
            partition = OffsetForLeaderPartition(
                partition=0, current_leader_epoch=-1, leader_epoch=epoch
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=-2, topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])]
            )
            found = wire.ask(request, 4).topics[0].partitions[0]
            assert (found.error_code, found.leader_epoch, found.end_offset) == (
                0,
                epoch,
                later[0] if later else 8,
            )
