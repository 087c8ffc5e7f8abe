"""Compares the records of a node, read by a client without a group, with the acknowledgements.

Every rule returns sentences about what is broken; none is good.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from log_service.records.batch import iterate_headers, next_sequence
from tests.chaos.load import TOPICS, Acknowledged, Place, Reader, Writer
from tests.integration.confluent import WAIT_SECONDS, consumer, take

Segments = Mapping[tuple[str, int], bytes]
"""What the segments of each topic and partition hold, from offset 0 on."""


def read_log(bootstrap: str, topics: Mapping[str, int] = TOPICS, **more: Any) -> Acknowledged:
    """Every record of topics, and nothing left out without a word: a gap between two offsets
    raises. ``more`` are settings.
    """
    found: Acknowledged = {}
    for topic, partition in (
        (topic, partition) for topic, count in topics.items() for partition in range(count)
    ):
        source = consumer(bootstrap, "judge", check_crcs=True, **more)
        start, end = _ends(source, TopicPartition(topic, partition))
        source.assign([TopicPartition(topic, partition, start)])
        try:
            records = take(source, end - start)
        finally:
            source.close()
        offsets = [record.offset() for record in records]
        assert offsets == list(range(start, end)), (
            f"{topic}-{partition}: a gap in [{start}, {end}): {first_gap(offsets)}"
        )
        found |= {
            (topic, partition, record.offset()): record.value().decode() for record in records
        }
    return found


def _ends(source: Any, partition: TopicPartition) -> tuple[int, int]:
    """Return the offsets at which a partition begins and ends. Ask again while its leader changes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            start, end = source.get_watermark_offsets(partition, WAIT_SECONDS)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return start, end


def first_gap(offsets: list[int]) -> str:
    """Return the place at which offsets stop following each other."""
    broken = next((pair for pair in pairwise(offsets) if pair[1] != pair[0] + 1), None)
    return f"{broken[0]} is followed by {broken[1]}" if broken else f"{offsets[:1]}..{offsets[-1:]}"


def judge(
    log: Acknowledged,
    writers: Sequence[Writer],
    readers: Sequence[Reader],
    segments: Segments | None = None,
) -> list[str]:
    """Every broken promise.

    ``segments`` say which producer epoch wrote a record. With them a record may come again where
    its producer begins a new epoch: librdkafka does so after a batch that came out of order, and
    sends again what it sent to other partitions without a response. No broker can know such a
    record. What a broker does promise, each sequence of an epoch once, is judged by the batches.
    """
    faults = [fault for client in [*writers, *readers] for fault in client.failures]
    for writer in writers:
        faults += [
            f"{value[:40]} was acknowledged at {place} and is not there: {log.get(place, 'nothing')[:40]}"
            for place, value in list(writer.acknowledged.items())
            if log.get(place) != value
        ]
    values = {(topic, partition, value) for (topic, partition, _), value in log.items()}
    faults += [
        f"{value[:40]} was acknowledged in {topic}-{partition} and is not there"
        for writer in writers
        for topic, partition, value in list(writer.unplaced)
        if (topic, partition, value) not in values
    ]
    faults += _order(log, {} if segments is None else _epochs(segments))
    faults += [] if segments is None else sequences_follow(segments)
    for reader in readers:
        faults += [
            f"{reader.name} got {value[:40]} at {place}, the log has another"
            for place, value in reader.got.items()
            if log.get(place) != value
        ]
    return faults


def _order(log: Acknowledged, epochs: Mapping[Place, int]) -> list[str]:
    """Each producer's records once and in order; where its epoch is known, in each of its epochs."""
    faults, last = [], dict[tuple[str, str, int], tuple[int, int]]()
    for (topic, partition, offset), value in sorted(log.items()):
        name, _, number, _ = value.split(":")
        epoch = epochs.get((topic, partition, offset), 0)
        before, last_epoch = last.get((name, topic, partition), (0, epoch))
        if int(number) <= before and epoch <= last_epoch:
            faults.append(
                f"record {number} of {name} at {offset} of {topic}-{partition} comes after {before}: twice, or out of order"
            )
        last[name, topic, partition] = int(number), epoch
    return faults


def _epochs(segments: Segments) -> dict[Place, int]:
    """The producer epoch of every record."""
    return {
        (topic, partition, offset): header.producer_epoch
        for (topic, partition), content in segments.items()
        for _, header in iterate_headers(content)
        for offset in range(header.base_offset, header.next_offset)
    }


def sequences_follow(segments: Segments) -> list[str]:
    """Check that each idempotent producer's sequences follow each other.

    They begin at 0 in every epoch but the first, as brokers ensure.
    """
    faults, due = [], dict[tuple[str, int, int], tuple[int, int]]()
    for (topic, partition), content in segments.items():
        for _, header in iterate_headers(content):
            if header.producer_id < 0:
                continue
            key, found = (
                (topic, partition, header.producer_id),
                (header.producer_epoch, header.base_sequence),
            )
            epoch, sequence = due.get(key, found)
            if header.producer_epoch > epoch:
                epoch, sequence = header.producer_epoch, 0
            if found != (epoch, sequence):
                faults.append(
                    f"{topic}-{partition} at {header.base_offset} (leader epoch {header.partition_leader_epoch}): producer "
                    f"{header.producer_id} (epoch, sequence) {found}, where {epoch, sequence} is due"
                )
            due[key] = header.producer_epoch, next_sequence(header.last_sequence)
    return faults


def group_got_everything(log: Acknowledged, readers: Iterable[Reader]) -> list[str]:
    """Whatever is in the log reached some member."""
    got = {place for reader in readers for place in reader.got}
    missed = sorted(set(log) - got)
    return (
        [f"the group never got {len(missed)} records, the first at {missed[0]}"] if missed else []
    )


def commits_of(readers: Iterable[Reader]) -> dict[tuple[str, int], int]:
    """The highest offset of each partition that any member was told to be committed."""
    highest = dict[tuple[str, int], int]()
    for reader in readers:
        for where, offset in reader.committed.items():
            highest[where] = max(highest.get(where, 0), offset)
    return highest


def commits_stand(bootstrap: str, readers: Sequence[Reader], **more: Any) -> list[str]:
    """Return the committed offsets of a group that are below those acknowledged to its readers.

    ``more`` are settings.
    """
    expected = commits_of(readers)
    (group,) = {reader.group for reader in readers}
    source: Any = consumer(bootstrap, group, **more)
    try:
        told = source.committed(
            [TopicPartition(*where) for where in expected], timeout=WAIT_SECONDS
        )
    finally:
        source.close()
    return [
        f"{each.topic}-{each.partition}: {each.offset} is told as committed, {expected[each.topic, each.partition]} was acknowledged"
        for each in told
        if each.offset < expected[each.topic, each.partition]
    ]
