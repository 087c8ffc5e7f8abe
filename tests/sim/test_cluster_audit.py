"""The audit finds in the logs of stopped nodes all that they can show of a cluster."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from log_service.common.types import TopicPartition
from log_service.records.batch import parse_header
from log_service.records.builder import build_batch
from log_service.storage.file_names import LOG_SUFFIX, file_name
from tests.sim import MemoryFiles
from tests.sim.cluster_audit import check_replicas
from tests.sim.disk import Disk

PARTITION = TopicPartition("a", 0)


def five_records(offset: int, value: bytes = b"value") -> bytes:
    return build_batch([(0, None, value)] * 5, base_offset=offset, leader_epoch=0)


FIRST, SECOND, THIRD = (five_records(offset) for offset in (0, 5, 10))
OTHER_SECOND = five_records(5, b"other")


def log(*batches: bytes) -> dict[int, bytes]:
    """A log with one segment."""
    return {parse_header(batches[0]).base_offset: b"".join(batches)}


def empty_log(start: int) -> dict[int, bytes]:
    return {start: b""}


def disk_with(segments: Mapping[int, bytes]) -> Disk:
    disk = Disk()
    files, directory = MemoryFiles(disk), Path("/data/a-0")
    files.make_directory(directory.parent)
    files.make_directory(directory)
    for base_offset, content in segments.items():
        files.write_atomically(directory / file_name(base_offset, LOG_SUFFIX), content)
    return disk


def found(
    logs: Mapping[str, Mapping[int, bytes]], end: int, *, is_at_rest: bool = False, asked: int = 0
) -> list[str]:
    """Compare logs of one partition that was committed up to ``end``; return what is found. Clients
    deleted what is below ``asked``.
    """
    hosts: list[Any] = [
        SimpleNamespace(name=name, disk=disk_with(segments)) for name, segments in logs.items()
    ]
    whole = frozenset({"a"} if is_at_rest else ())
    return [
        violation.text
        for violation in check_replicas(hosts, {PARTITION: end}, whole, {PARTITION: asked})
    ]


def test_replicas_are_the_same_as_far_as_they_were_committed() -> None:
    (lost,) = found({"node1": log(FIRST, SECOND), "node2": log(FIRST)}, 10)
    assert lost == "a-0 on node1 and on node2 has 2 and 1 batches below 10"
    (other,) = found({"node1": log(FIRST, SECOND), "node2": log(FIRST, OTHER_SECOND)}, 10)
    assert (
        f"first (5, 9, 0) of {len(SECOND)} bytes and (5, 9, 0) of {len(OTHER_SECOND)} bytes"
        in other
    )


def test_what_was_committed_after_a_node_had_left_is_not_looked_for_there() -> None:
    logs = {
        "node1": log(FIRST, SECOND, THIRD),
        "node2": log(FIRST),
        "node3": log(FIRST, OTHER_SECOND),
    }
    assert found(logs, 5) == []


def test_replicas_of_a_topic_at_rest_end_at_the_same_offset() -> None:
    (shorter,) = found({"node1": log(FIRST, SECOND), "node2": log(FIRST)}, 5, is_at_rest=True)
    assert shorter == "a-0 ends at 10 on node1, at 5 on node2"


class TestEmptyReplica:
    """It begins and ends where its file says, if clients had asked for as much to be deleted."""

    def test_that_has_deleted_what_was_asked_for_equals_one_that_has_not(self) -> None:
        for logs in (
            {"node1": log(FIRST, SECOND), "node2": empty_log(10)},
            {"node1": empty_log(10), "node2": log(FIRST, SECOND)},
        ):
            assert found(logs, 10, is_at_rest=True, asked=10) == []

    def test_without_what_nobody_deleted_lacks_it(self) -> None:
        (lost,) = found({"node1": log(FIRST, SECOND), "node2": empty_log(0)}, 10, asked=10)
        assert lost == "a-0 on node1 and on node2 has 2 and 0 batches below 10"
        (lost,) = found({"node1": log(FIRST, SECOND), "node2": empty_log(10)}, 10, asked=9)
        assert lost == "a-0 on node1 and on node2 has 2 and 0 batches below 10"

    def test_that_begins_before_what_is_committed_lacks_the_rest(self) -> None:
        (lost,) = found({"node1": log(FIRST, SECOND), "node2": empty_log(5)}, 10, asked=10)
        assert lost == "a-0 on node1 and on node2 has 1 and 0 batches below 10"

    def test_of_a_topic_at_rest_ends_where_the_others_end(self) -> None:
        (shorter,) = found(
            {"node1": log(FIRST, SECOND), "node2": empty_log(5)}, 5, is_at_rest=True, asked=5
        )
        assert shorter == "a-0 ends at 10 on node1, at 5 on node2"
