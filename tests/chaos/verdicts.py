"""What a node holds, read to its end by a client without a group, against what everybody was told.

Every rule returns sentences about what is broken; none is good.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from confluent_kafka import TopicPartition

from tests.chaos.load import GROUP, PARTITION_COUNT, TOPIC, Acknowledged, Reader, Writer
from tests.integration.confluent import WAIT_SECONDS, consumer, take


def read_log(bootstrap: str, topic: str = TOPIC, partitions: Iterable[int] = range(PARTITION_COUNT)) -> Acknowledged:
    """Every record of a topic, and nothing left out without a word: a gap between two offsets raises."""
    found: Acknowledged = {}
    for partition in partitions:
        source = consumer(bootstrap, "judge", check_crcs=True)
        start, end = source.get_watermark_offsets(TopicPartition(topic, partition), WAIT_SECONDS)
        source.assign([TopicPartition(topic, partition, start)])
        try:
            records = take(source, end - start)
        finally:
            source.close()
        offsets = [record.offset() for record in records]
        assert offsets == list(range(start, end)), f"partition {partition}: a gap in [{start}, {end}): {first_gap(offsets)}"
        found |= {(partition, record.offset()): record.value().decode() for record in records}
    return found


def first_gap(offsets: list[int]) -> str:
    """Where offsets stop following each other."""
    broken = next((pair for pair in pairwise(offsets) if pair[1] != pair[0] + 1), None)
    return f"{broken[0]} is followed by {broken[1]}" if broken else f"{offsets[:1]}..{offsets[-1:]}"


def judge(log: Acknowledged, writers: Iterable[Writer], readers: Iterable[Reader]) -> list[str]:
    """Every broken promise."""
    faults = [fault for client in [*writers, *readers] for fault in client.failures]
    for writer in writers:
        faults += [
            f"{value[:40]} was acknowledged at {place} and is not there: {log.get(place, 'nothing')[:40]}"
            for place, value in list(writer.acknowledged.items())
            if log.get(place) != value
        ]
    faults += _order(log)
    for reader in readers:
        faults += [
            f"{reader.name} got {value[:40]} at {place}, the log has another"
            for place, value in reader.got.items()
            if log.get(place) != value
        ]
    return faults


def _order(log: Acknowledged) -> list[str]:
    """Each producer's records once and in order."""
    faults, last = [], dict[tuple[str, int], int]()
    for (partition, offset), value in sorted(log.items()):
        name, _, number, _ = value.split(":")
        before = last.get((name, partition), 0)
        if int(number) <= before:
            faults.append(f"record {number} of {name} at {offset} of partition {partition} comes after {before}: twice, or out of order")
        last[name, partition] = int(number)
    return faults


def group_got_everything(log: Acknowledged, readers: Iterable[Reader]) -> list[str]:
    """Whatever is in the log reached some member."""
    got = {place for reader in readers for place in reader.got}
    missed = sorted(set(log) - got)
    return [f"the group never got {len(missed)} records, the first at {missed[0]}"] if missed else []


def commits_stand(bootstrap: str, readers: Iterable[Reader]) -> list[str]:
    """What a group is told to have committed is no less than what was acknowledged."""
    expected = dict[int, int]()
    for reader in readers:
        for partition, offset in reader.committed.items():
            expected[partition] = max(expected.get(partition, 0), offset)
    source: Any = consumer(bootstrap, GROUP)
    try:
        told = source.committed([TopicPartition(TOPIC, partition) for partition in expected], timeout=WAIT_SECONDS)
    finally:
        source.close()
    return [
        f"partition {each.partition}: {each.offset} is told as committed, {expected[each.partition]} was acknowledged"
        for each in told
        if each.offset < expected[each.partition]
    ]
