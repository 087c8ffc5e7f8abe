"""Looks at the disks of a simulated cluster: what of a node's logs a death left, and whether all replicas hold the same in the end.

A replica's own tail may be cut by its leader, and may grow again before anyone looks. So what is compared at a start is what the dead node
knew to be committed: below the high watermark nothing may be missing or other than before, unless power went and it was not synced.
"""

from collections.abc import Iterator, Mapping, Sequence

from log_service.common.types import TopicPartition
from log_service.records.batch import iterate_headers, iterate_records
from log_service.storage.file_names import parse_directory_name
from tests.sim.node_audit import METADATA_DIRECTORY, Auditor, DeathRecord, LogKey, StoredBatch, stored_logs
from tests.sim.node_checker import Violation
from tests.sim.node_host import Death, Incarnation, NodeHost


class ClusterAuditor(Auditor):
    """Watches the disk of one node of a cluster."""

    def _compare(self, record: DeathRecord, now: dict[LogKey, list[StoredBatch]], incarnation: Incarnation) -> Iterator[Violation]:
        for key, before in sorted(record.logs.items()):
            partition = parse_directory_name(key.name)
            after = now.get(key)
            if partition is None or after is None:
                continue  # the partition is gone, or lives elsewhere
            if key.name == METADATA_DIRECTORY or record.death is Death.POWER:
                yield from _compare_below(key.path, before, after, record, record.floors.get(key, 0))

    def _take_floors(self) -> None:
        """Of a replica only what is committed stays for certain: its leader may cut the rest."""
        super()._take_floors()
        incarnation = self._host.current
        if incarnation is None or incarnation.broker._rooms is None or not self._host.has_partitions:
            return
        for partition in incarnation.broker.replicas.partitions.values():
            if partition.log is not None:
                path = str(partition.log.directory)
                for key in [key for key in self._floors if key.path == path]:
                    self._floors[key] = min(self._floors[key], partition.high_watermark)


def _compare_below(
    name: str, before: Sequence[StoredBatch], after: Sequence[StoredBatch], record: DeathRecord, floor: int
) -> Iterator[Violation]:
    start = after[0].base_offset if after else (before[-1].last_offset + 1 if before else 0)
    found = {batch.base_offset: batch.content for batch in after}
    for batch in before:
        if start <= batch.base_offset and batch.last_offset < floor and found.get(batch.base_offset) != batch.content:
            text = f"{name} lacks {batch.base_offset} to {batch.last_offset} of epoch {batch.leader_epoch}, durable up to {floor}"
            yield Violation("recovery", f"{text}, after {record.death.value}")
            return


def check_replicas(
    hosts: Sequence[NodeHost], ends: Mapping[TopicPartition, int], whole: frozenset[str], compacted: frozenset[str] = frozenset()
) -> Iterator[Violation]:
    """Compare the logs of all replicas on the disks of nodes that have stopped, byte for byte.

    ``ends`` is how far each partition was committed while all replicas were in sync: what is committed later, while one node after the
    other leaves the in-sync replicas and stops, is not on those that have left. The topics in ``whole`` are at rest: their replicas also
    end at the same offset. Where a cleaner runs, those in ``compacted`` have the same records last of each key, wherever each replica's
    cleaner has come to.
    """
    logs: dict[tuple[str, bytes], list[tuple[str, list[StoredBatch]]]] = {}
    for host in hosts:
        for key, batches in stored_logs(host.disk).items():
            if key.name != METADATA_DIRECTORY:
                logs.setdefault((key.name, key.identity), []).append((host.name, batches))
    for (name, _), replicas in sorted(logs.items()):
        partition = parse_directory_name(name)
        if partition is not None and partition.topic in compacted:
            yield from _compare_compacted(name, replicas, ends.get(partition, 0))
        elif partition is not None:
            yield from _compare_replicas(name, replicas, ends.get(partition, 0), is_at_rest=partition.topic in whole)


def _compare_replicas(name: str, replicas: list[tuple[str, list[StoredBatch]]], end: int, *, is_at_rest: bool) -> Iterator[Violation]:
    start = max((batches[0].base_offset for _, batches in replicas if batches), default=0)
    first_name, first = replicas[0]
    expected = _between(first, start, end)
    for other_name, other in replicas[1:]:
        found = _between(other, start, end)
        if found != expected:
            different = next((pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]), None)
            text = f"{len(expected)} and {len(found)} batches below {end}"
            if different is not None:
                ours, theirs = different
                text += f"; first {ours[:3]} of {len(ours.content)} bytes and {theirs[:3]} of {len(theirs.content)} bytes"
            yield Violation("replicas are equal", f"{name} on {first_name} and on {other_name} has {text}")
        elif is_at_rest and _end_of(other) != _end_of(first):
            yield Violation("replicas are equal", f"{name} ends at {_end_of(first)} on {first_name}, at {_end_of(other)} on {other_name}")


def _compare_compacted(name: str, replicas: list[tuple[str, list[StoredBatch]]], end: int) -> Iterator[Violation]:
    """The last record of each key is the same; a tombstone may be gone already, and with it all that has its key."""
    found = [(host, _last_of_each_key(batches, end)) for host, batches in replicas]
    for key in sorted({key for _, last in found for key in last}):
        values = {host: last[key] for host, last in found if key in last and last[key][1] is not None}
        tombstones = {host: last[key] for host, last in found if key in last and last[key][1] is None}
        is_left_out = len(values) + len(tombstones) < len(found)
        if len({*values.values(), *tombstones.values()}) > 1 or (values and is_left_out):
            text = f"{key!r} last at { {host: last.get(key, (None,))[0] for host, last in found} }"
            yield Violation("replicas are equal", f"{name} has {text}, of {end} that are committed")


def _last_of_each_key(batches: list[StoredBatch], end: int) -> dict[bytes, tuple[int, bytes | None]]:
    """Return offset and value; markers of transactions have no key that counts."""
    return {
        bytes(record.key): (record.offset, None if record.value is None else bytes(record.value))
        for batch in batches
        if batch.last_offset < end and not is_control(batch.content)
        for record in iterate_records(batch.content)
        if record.key is not None
    }


def is_control(content: bytes) -> bool:
    """Whether a batch holds markers."""
    return next(header.is_control for _, header in iterate_headers(content))


def _between(batches: list[StoredBatch], start: int, end: int) -> list[StoredBatch]:
    return [batch for batch in batches if start <= batch.base_offset and batch.last_offset < end]


def _end_of(batches: list[StoredBatch]) -> int:
    return batches[-1].last_offset + 1 if batches else -1
