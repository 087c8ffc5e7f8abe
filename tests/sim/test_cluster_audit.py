"""What the logs of nodes that have stopped say of a cluster, and what they do not."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from log_service.common.types import TopicPartition
from tests.sim import cluster_audit
from tests.sim.node_audit import LogKey, StoredBatch

FIRST, SECOND, THIRD = (StoredBatch(offset, offset + 4, 0, b"%d" % offset) for offset in (0, 5, 10))
OTHER_SECOND = SECOND._replace(content=b"other")


def found(logs: Mapping[str, list[StoredBatch]], end: int, monkeypatch: pytest.MonkeyPatch, *, is_at_rest: bool = False) -> list[str]:
    """Compare logs of one partition that was committed up to ``end``; return what is found."""
    monkeypatch.setattr(cluster_audit, "stored_logs", lambda batches: {LogKey("/data/a-0", b"id"): batches})
    hosts: list[Any] = [SimpleNamespace(name=name, disk=batches) for name, batches in logs.items()]
    whole = frozenset({"a"} if is_at_rest else ())
    return [violation.text for violation in cluster_audit.check_replicas(hosts, {TopicPartition("a", 0): end}, whole)]


def test_replicas_are_the_same_as_far_as_they_were_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    (lost,) = found({"node1": [FIRST, SECOND], "node2": [FIRST]}, 10, monkeypatch)
    assert lost == "a-0 on node1 and on node2 has 2 and 1 batches below 10"
    (other,) = found({"node1": [FIRST, SECOND], "node2": [FIRST, OTHER_SECOND]}, 10, monkeypatch)
    assert "first (5, 9, 0) of 1 bytes and (5, 9, 0) of 5 bytes" in other


def test_what_was_committed_after_a_node_had_left_is_not_looked_for_there(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {"node1": [FIRST, SECOND, THIRD], "node2": [FIRST], "node3": [FIRST, OTHER_SECOND]}
    assert found(logs, 5, monkeypatch) == []


def test_replicas_of_a_topic_at_rest_end_at_the_same_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    (shorter,) = found({"node1": [FIRST, SECOND], "node2": [FIRST]}, 5, monkeypatch, is_at_rest=True)
    assert shorter == "a-0 ends at 10 on node1, at 5 on node2"
