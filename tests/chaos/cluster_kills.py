"""Plays faults of three or five loaded nodes, alone and in pairs. A verdict compares the cluster
with the acknowledgements to clients.

Idempotent producers of two client libraries write, a group of two members reads and commits, and an
operator reassigns, elects, creates and deletes throughout. In the end all nodes run, every replica
is in sync, everything that was acknowledged is there once and in order, no commit has gone back,
and the replicas hold the same bytes.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from log_service.broker.main import ExitCode
from tests.chaos.cluster_faults import BALLAST, Step, Striker, steps
from tests.chaos.disks import UnfitError, small_disk
from tests.chaos.load import TOPIC, ConfluentWriter, OurWriter, Reader, Writer, wait_for_readers
from tests.chaos.network import Network
from tests.chaos.operator import MOVED, Operator
from tests.chaos.verdicts import (
    Segments,
    commits_of,
    commits_stand,
    group_got_everything,
    judge,
    read_log,
)
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "500",
    "leader.imbalance.check.interval.seconds": "5",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
    "log.segment.bytes": "1048576",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}
TOPICS = {TOPIC: 3, MOVED: 2}
DISK_SIZE = "1g"
DRAIN_SECONDS = 90.0
PATIENT: dict[str, Any] = {"socket_timeout_ms": 3_000}
"""librdkafka waits 60 s for a node that hangs, by default."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The result of a loop of faults."""

    folder: Path
    size: int
    seed: int
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    record_count: int = 0
    acknowledged: dict[str, int] = field(default_factory=dict)
    commit_count: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        struck = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        acknowledged = ", ".join(f"{count} to {name}" for name, count in self.acknowledged.items())
        operated = ", ".join(f"{what} {count}" for what, count in sorted(self.operations.items()))
        lines = [
            f"{self.kinds.total()} faults of {self.size} nodes in {self.seconds:.0f} s, seed {self.seed}: {struck}",
            f"{self.record_count} records in the log; acknowledged {acknowledged}; commits up to {self.commit_count}",
            f"the operator: {operated}",
            *self.notes,
            f"{len(self.faults)} promises broken",
            *self.faults[:20],
        ]
        if self.faults:
            lines.append(
                f"the nodes' directories and logs, and a list of the faults, are in {self.folder}"
            )
        return "\n  ".join(lines)


def run(
    folder: Path,
    kills: int,
    seed: int,
    size: int = 3,
    *,
    pause_seconds: float = 0.004,
    told: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Play so many faults, then let everybody finish, and check.

    Each writer waits for ``pause_seconds`` after a record.
    """
    begun, outcome = time.monotonic(), Outcome(folder=folder, size=size, seed=seed)

    def note(text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {text}"
        told(line)
        with (folder / "faults.txt").open("a") as file:
            file.write(line + "\n")

    with ExitStack() as stack:
        has_disks = _mount(stack, folder, size, outcome)
        network = stack.enter_context(Network())
        nodes = stack.enter_context(
            ClusterNodes(TIDELOG, folder, PROPERTIES, size=size, ways=network)
        )
        decided = steps(seed, kills, has_disks=has_disks)
        try:
            _play(nodes, network, decided, outcome, note=note, pause_seconds=pause_seconds)
        except Exception as error:  # noqa: BLE001 - told with all the rest
            outcome.faults.append(f"it did not come to its end: {error!r}")
        outcome.faults += _complaints(nodes)
        if outcome.faults:
            _keep(nodes)
    outcome.seconds = time.monotonic() - begun
    return outcome


def _mount(stack: ExitStack, folder: Path, size: int, outcome: Outcome) -> bool:
    """Give each node a disk of its own, where that can be done."""
    try:
        for node_id in range(1, size + 1):
            disk = stack.enter_context(small_disk(folder / f"disk{node_id}", DISK_SIZE))
            (disk / "data").mkdir()
            (folder / f"data{node_id}").symlink_to(disk / "data")
    except UnfitError as reason:
        outcome.notes.append(f"no disk was filled: {reason}")
        return False
    return True


def _keep(nodes: ClusterNodes) -> None:
    """Copy what is on disks that are about to vanish."""
    for node_id in nodes.running:
        nodes.kill(node_id)
    for node_id in nodes.node_ids:
        data = nodes.data(node_id)
        if data.is_symlink():
            (data.resolve().parent / BALLAST).unlink(missing_ok=True)
            shutil.copytree(data, nodes.directory / f"kept{node_id}")


def _play(
    nodes: ClusterNodes,
    network: Network,
    decided: list[Step],
    outcome: Outcome,
    *,
    note: Callable[[str], None],
    pause_seconds: float,
) -> None:
    seed, bootstrap = outcome.seed, nodes.bootstrap
    operator = Operator(bootstrap, seed, nodes.node_ids)
    operator.create_topics(TOPICS)
    nodes.wait_until_whole(*TOPICS)
    writers: list[Writer] = [
        ConfluentWriter("rdkafka", bootstrap, seed, TOPICS, pause_seconds=pause_seconds, **PATIENT),
        OurWriter(
            "ours", bootstrap, seed, TOPICS, pause_seconds=pause_seconds, request_timeout_ms=3_000
        ),
    ]
    readers = [Reader(name, bootstrap, TOPICS, **PATIENT) for name in ("first", "second")]
    clients = [*writers, *readers, operator]
    for client in clients:
        client.start()
    striker = Striker(nodes, network, note)
    for step in decided:
        striker.play(step)
        outcome.kinds.update(fault.kind for fault in step.faults)
        for node_id, code in _ended(nodes):
            text = f"node {node_id} ended by itself with {code}"
            if code == ExitCode.DISK_FULL and node_id in striker.filled:
                note(text)
            else:
                outcome.faults.append(text)
        outcome.faults += striker.broken
        if step.is_whole or outcome.faults:
            nodes.wait_until_whole(*TOPICS)
        if outcome.faults:
            break
    note("let everybody finish")
    operator.stop()
    nodes.wait_until_whole(*TOPICS)
    for writer in writers:
        writer.stop()
    log = read_log(bootstrap, TOPICS)
    wait_for_readers(log, readers, DRAIN_SECONDS)
    for reader in readers:
        reader.stop()
        outcome.notes += reader.notes
    nodes.wait_until_whole(*TOPICS)
    outcome.record_count, outcome.operations = len(log), operator.counts
    outcome.acknowledged = {writer.name: len(writer.acknowledged) for writer in writers}
    outcome.commit_count = sum(commits_of(readers).values())
    nodes.wait_until_equal(*TOPICS)
    outcome.faults += [
        *judge(log, writers, readers, _segments(nodes)),
        *group_got_everything(log, readers),
    ]
    outcome.faults += [*commits_stand(bootstrap, readers), *operator.verdict()]
    note("kill all once more")
    outcome.faults += _killed_once_more(nodes, log)


def _segments(nodes: ClusterNodes) -> Segments:
    """Return the segments of the first replica of each partition."""
    return {
        (topic, partition): nodes.segments(first, topic, partition)
        for topic in TOPICS
        for partition, (first, *_) in enumerate(nodes.replicas_of(topic))
    }


def _ended(nodes: ClusterNodes) -> Iterator[tuple[int, int]]:
    """Nodes that have ended by themselves, each with its exit code; they are started again."""
    for node_id in nodes.running:
        code = nodes.ended_by_itself(node_id)
        if code is not None:
            yield node_id, code
            nodes.launch(node_id)


def _killed_once_more(nodes: ClusterNodes, log: dict[tuple[str, int, int], str]) -> Iterator[str]:
    """Kill all nodes of an idle cluster.

    Their metadata logs agree, and after a start the records are the same.
    """
    for node_id in nodes.running:
        nodes.kill(node_id)
    nodes.wait_until_whole(*TOPICS)
    again = read_log(nodes.bootstrap, TOPICS)
    if again != log:
        lost, more = sorted(log.keys() - again.keys())[:5], sorted(again.keys() - log.keys())[:5]
        yield f"one more kill, of an idle cluster, changed the log: {len(log)} to {len(again)} records, lost {lost}, more {more}"


def _complaints(nodes: ClusterNodes) -> Iterator[str]:
    """Tracebacks in the nodes' logs."""
    for node_id in nodes.node_ids:
        log = nodes.log(node_id)
        if "Traceback" in log:
            where = log.index("Traceback")
            yield f"node {node_id} tells of a traceback: {log[max(where - 500, 0) : where + 2_500]}"
