"""Compaction cleans transactions as Apache Kafka's does.

Kafka's own files are cleaned by it and by tidelog, pass by pass.

Kafka writes histories of committed and aborted transactions, of both protocols, and one that is
left open; both nodes are stopped and tidelog gets a copy of the files. Then both clean, and batches
and indexes of aborted transactions have to be the same, but for the times at which tombstones and
markers may go. ``TIDELOG_RECORD=1 WHOLE=1`` writes what Kafka made of them to where the cleaner's
unit tests take it from; these hold the cleaner to it in every run.
"""

import base64
import json
import os
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from log_service.protocol.messages.fetch import FetchRequest, FetchTopic
from log_service.records.builder import build_batch
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import consumer
from tests.integration.differential import RECORD, Cluster
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there
from tests.integration.moved_nodes import (
    PROPERTIES,
    Node,
    await_leader,
    create,
    data_of,
    move,
    produce,
)
from tests.integration.record_requests import configs_request, wanted
from tests.integration.shown_batches import CLEAN_SECONDS, batches_of, shown
from tests.integration.transactional_writer import Pair, TransactionalWriter
from tests.integration.wire import Wire

pytestmark = pytest.mark.repeats("what the unit tests of the cleaner are held to")
RECORDED = Path(__file__).parents[1] / "unit" / "storage" / "cleaner" / "recorded_transactions.json"
SEGMENT_MS = 150
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "1",
}
PASS_COUNT = 4
READ_COMMITTED = 1
KAFKA, TIDELOG = SIDES = ("kafka", "tidelog")

Step = tuple[str, Any]
"""What a writer does: append records; or True, commit; or False, abort."""
Segment = list[Step]

PLAIN, FIRST, SECOND = "plain", "first", "second"
"""No transactions; transactions of version 1; of version 2."""
LEFT_OPEN = "left open"

HISTORIES: dict[str, list[Segment]] = {
    "aborted values": [
        [
            (FIRST, [(b"a", b"1"), (b"b", b"1")]),
            (FIRST, True),
            (SECOND, [(b"a", b"2"), (b"c", None)]),
            (SECOND, False),
        ],
        [
            (FIRST, [(b"b", None)]),
            (FIRST, False),
            (SECOND, [(b"d", b"4")]),
            (SECOND, True),
            (PLAIN, [(b"d", None)]),
        ],
        [(SECOND, [(b"e", b"5")]), (FIRST, [(b"e", b"6")]), (SECOND, True), (FIRST, False)],
    ],
    "over segments": [
        [(PLAIN, [(b"a", b"1")]), (FIRST, [(b"a", b"2")]), (SECOND, [(b"b", b"2")])],
        [(FIRST, [(b"a", b"3")]), (PLAIN, [(b"c", b"1")])],
        [(SECOND, [(b"b", b"3")]), (FIRST, False), (FIRST, [(b"a", b"4"), (b"d", b"1")])],
        [(SECOND, False), (FIRST, True), (SECOND, [(b"b", b"5")])],
        [(SECOND, True)],
    ],
    LEFT_OPEN: [
        [(FIRST, [(b"a", b"1")]), (FIRST, False), (SECOND, [(b"a", b"2")]), (SECOND, True)],
        [(PLAIN, [(b"a", b"3")]), (FIRST, [(b"b", b"1")]), (FIRST, True)],
        [
            (PLAIN, [(b"b", b"2")]),
            (FIRST, [(b"a", b"4")]),
            (SECOND, [(b"a", b"5")]),
            (SECOND, False),
        ],
        [(SECOND, [(b"a", b"6")]), (SECOND, True)],
    ],
}


def random_history(seed: int) -> list[Segment]:
    """Return segments in which the three write in turn, and end some of their transactions."""
    rng, is_begun = Random(seed), {FIRST: False, SECOND: False}
    segments: list[Segment] = []
    for _ in range(6):
        segments.append([])
        for _ in range(rng.randint(1, 7)):
            writer = rng.choice([PLAIN, FIRST, FIRST, SECOND, SECOND])
            if is_begun.get(writer) and rng.random() < 0.5:
                segments[-1].append((writer, rng.random() < 0.4))
                is_begun[writer] = False
                continue
            keys = [rng.choice([b"a", b"b", b"c", b"d"]) for _ in range(rng.randint(1, 3))]
            segments[-1].append(
                (writer, [(key, rng.choice([b"%d" % rng.randint(0, 99), None])) for key in keys])
            )
            if writer != PLAIN:
                is_begun[writer] = True
    segments.append([(writer, rng.random() < 0.5) for writer, begun in is_begun.items() if begun])
    return segments


@dataclass(slots=True)
class Told:
    """A side's results for one history.

    After each pass they are its batches, its indexes, and the transactions that it calls aborted.
    """

    batches: list[list[dict[str, Any]]] = field(default_factory=list)
    indexes: list[dict[str, str]] = field(default_factory=list)
    aborted: list[list[tuple[int, int]]] = field(default_factory=list)
    committed: dict[bytes, bytes] = field(default_factory=dict)
    """What a reader of committed records builds at the end."""


@dataclass(slots=True)
class Written:
    """A batch that was written, in the order of offsets.

    Readers of committed records see it once ``is_committed``.
    """

    writer: str
    records: list[Pair]
    is_committed: bool
    is_ended: bool


@dataclass(slots=True, kw_only=True)
class Case:
    """One history in a topic of its own."""

    name: str
    segments: list[Segment]
    delete_retention_ms: int = 0
    written: list[Written] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=lambda: {side: Told() for side in SIDES})

    @property
    def topic(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def configs(self) -> dict[str, str]:
        retention_ms = str(self.delete_retention_ms)
        return {**CONFIGS, "delete.retention.ms": retention_ms}

    @property
    def committed(self) -> dict[bytes | None, bytes | None]:
        """The latest value of each key of which there is one."""
        latest = {
            key: value for one in self.written if one.is_committed for key, value in one.records
        }
        return {key: value for key, value in latest.items() if value is not None}

    def end(self, writer: str, *, is_commit: bool) -> None:
        """Take note of how a writer's transaction ended."""
        for one in self.written:
            if one.writer == writer and not one.is_ended:
                one.is_committed, one.is_ended = is_commit, True

    @property
    def is_left_open(self) -> bool:
        return self.name == LEFT_OPEN


def cases() -> list[Case]:
    named = [Case(name=name, segments=segments) for name, segments in HISTORIES.items()]
    named += [Case(name=f"random {seed}", segments=random_history(seed)) for seed in range(3)]
    return [
        *named,
        Case(name="kept a day", segments=random_history(4), delete_retention_ms=86_400_000),
    ]


def write_all(wire: Wire, histories: list[Case]) -> None:
    """Write all histories, segment by segment.

    Kafka begins one if a batch is much later than the first of the last.
    """
    writers = {
        (case.name, name): TransactionalWriter(
            wire, f"{name} of {case.name}", is_version_2=name == SECOND
        )
        for case in histories
        for name in (FIRST, SECOND)
    }
    for number in range(max(len(case.segments) for case in histories)):
        time.sleep(2 * SEGMENT_MS / 1000)
        for case in histories:
            for name, what in case.segments[number] if number < len(case.segments) else ():
                if isinstance(what, bool):
                    end_and_wait(wire, case.topic, writers[case.name, name], is_commit=what)
                    case.end(name, is_commit=what)
                    continue
                case.written.append(
                    Written(name, what, is_committed=name == PLAIN, is_ended=name == PLAIN)
                )
                if name == PLAIN:
                    produce(
                        wire,
                        case.topic,
                        build_batch([(now_ms(), key, value) for key, value in what]),
                    )
                else:
                    writers[case.name, name].write(case.topic, what, now_ms())


def now_ms() -> int:
    return int(time.time() * 1000)


def end_and_wait(wire: Wire, topic: str, writer: TransactionalWriter, *, is_commit: bool) -> None:
    """End a transaction, and wait until its marker is in the log."""
    before = fetched(wire, topic).high_watermark
    writer.end(is_commit=is_commit)
    deadline = time.monotonic() + CLEAN_SECONDS
    while fetched(wire, topic).high_watermark == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def fetched(wire: Wire, topic: str) -> Any:
    """Return what a fetch of committed records from the beginning is answered."""
    topics = [FetchTopic(topic=topic, partitions=[wanted(0, 0)])]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=READ_COMMITTED,
        topics=topics,
    )
    return wire.ask(request, 11).responses[0].partitions[0]


def files_of(node: Node, topic: str, *suffixes: str) -> dict[str, bytes]:
    paths = sorted((data_of(node) / f"{topic}-0").iterdir())
    return {path.name: path.read_bytes() for path in paths if path.suffix in suffixes}


def active_offset(node: Node, topic: str) -> int:
    return max(
        int(path.stem) for path in (data_of(node) / f"{topic}-0").iterdir() if path.suffix == ".log"
    )


def cleaned_offset(node: Node, topic: str) -> int:
    path = data_of(node) / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(line.split()[-1]) for line in lines if line.split()[:-1] == [topic, "0"]), -1)


class Recorder:
    """The files that a unit test needs to repeat Kafka's passes.

    They are those before the first pass, and after each.
    """

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def begin(self, case: Case, node: Node) -> None:
        before = packed(files_of(node, case.topic, ".log", ".txnindex", ".snapshot"))
        self.told[case.name] = {
            "delete_retention_ms": case.delete_retention_ms,
            "before": before,
            "passes": [],
        }

    def note(self, case: Case, node: Node) -> None:
        after = packed(files_of(node, case.topic, ".log", ".txnindex"))
        self.told[case.name]["passes"].append({"after": after, "until_ms": now_ms()})

    def save(self) -> None:
        RECORDED.write_text(json.dumps(self.told, indent=0, sort_keys=True) + "\n")


def packed(files: dict[str, bytes]) -> str:
    content = json.dumps({name: content.hex() for name, content in files.items()})
    return base64.b64encode(zlib.compress(content.encode(), 9)).decode()


def run_passes(nodes: dict[str, Node], histories: list[Case], recorder: Recorder) -> None:
    """Have both sides clean everything so often, once each, and note what they hold then."""
    wires = {side: Wire(node.bootstrap) for side, node in nodes.items()}
    for number in range(PASS_COUNT):
        time.sleep(2 * SEGMENT_MS / 1000)
        key = b"closing %d" % (number % 2)
        closing = build_batch([(now_ms(), key, b"%d" % number)])
        for case in histories:
            case.written.append(
                Written(PLAIN, [(key, b"%d" % number)], is_committed=True, is_ended=True)
            )
            for wire in wires.values():
                await_leader(wire, case.topic)
                produce(wire, case.topic, closing)
                wire.ask(configs_request(case.topic, min_cleanable_dirty_ratio="0"), 1)
        for case in histories:
            for side, node in nodes.items():
                await_cleaned(node, case)
                wires[side].ask(configs_request(case.topic, min_cleanable_dirty_ratio="1"), 1)
                note(case.told[side], node, wires[side], case.topic)
            recorder.note(case, nodes[KAFKA])
    for wire in wires.values():
        wire.close()


def await_cleaned(node: Node, case: Case) -> None:
    """Wait until a pass came as far as it may.

    It ends at the active segment, or at that in which a transaction is open.
    """
    deadline = time.monotonic() + CLEAN_SECONDS
    while cleaned_offset(node, case.topic) < (
        1 if case.is_left_open else active_offset(node, case.topic)
    ):
        assert time.monotonic() < deadline, (
            f"{case.topic} on {node.bootstrap} is clean below {cleaned_offset(node, case.topic)}"
        )
        time.sleep(0.05)


def note(told: Told, node: Node, wire: Wire, topic: str) -> None:
    cluster = Cluster(bootstrap=node.bootstrap, wire=wire)
    told.batches.append([shown(header, content) for header, content in batches_of(cluster, topic)])
    told.indexes.append(
        {name: content.hex() for name, content in files_of(node, topic, ".txnindex").items()}
    )
    aborted = fetched(wire, topic).aborted_transactions or ()
    told.aborted.append(sorted((each.producer_id, each.first_offset) for each in aborted))


def state_of(bootstrap: str, topic: str) -> dict[bytes, bytes]:
    """Return what librdkafka, reading committed records only, takes for the latest value of each
    key.
    """
    latest: dict[bytes, bytes | None] = {}
    source = consumer(
        bootstrap,
        f"reader-of-{topic}",
        isolation_level="read_committed",
        enable_partition_eof=True,
        fetch_wait_max_ms=10,
    )
    source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while (record := source.poll(CLEAN_SECONDS)) is not None:
        if record.error() is not None:
            assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
            break
        latest[record.key()] = record.value()
    source.close()
    return {key: value for key, value in latest.items() if value is not None}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """All histories, cleaned by both."""
    skip_unless_kafka_is_there()
    histories, recorder = cases(), Recorder()
    directories = [tmp_path_factory.mktemp(side) for side in SIDES]
    with (
        KafkaNode(directories[0], properties=PROPERTIES) as kafka,
        BrokerProcess(directories[1], properties=PROPERTIES) as ours,
    ):
        for node in (kafka, ours):
            with Wire(node.bootstrap) as wire:
                for case in histories:
                    create(wire, case.topic, case.configs)
        with Wire(kafka.bootstrap) as wire:
            write_all(wire, histories)
        kafka.stop()
        ours.stop()
        for case in histories:
            move(kafka, ours, case.topic)
            recorder.begin(case, kafka)
        nodes: dict[str, Node] = {KAFKA: kafka.start(), TIDELOG: ours.start()}
        run_passes(nodes, histories, recorder)
        for case in histories:
            for side in SIDES:
                case.told[side].committed = state_of(nodes[side].bootstrap, case.topic)
    if os.environ.get(RECORD):
        recorder.save()
    return {case.name: case for case in histories}


@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_both_leave_the_same_batches_and_indexes_pass_by_pass(
    done: dict[str, Case], name: str
) -> None:
    case = done[name]
    ours, kafkas = case.told[TIDELOG], case.told[KAFKA]
    for number in range(PASS_COUNT):
        assert ours.batches[number] == kafkas.batches[number], f"pass {number}"
        assert ours.indexes[number] == kafkas.indexes[number], f"pass {number}"
        assert ours.aborted[number] == kafkas.aborted[number], f"pass {number}"
    assert any(kafkas.indexes), "something was aborted"


@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_who_reads_committed_records_gets_the_values_that_were_committed_last(
    done: dict[str, Case], name: str
) -> None:
    case = done[name]
    assert case.told[TIDELOG].committed == case.told[KAFKA].committed
    assert case.is_left_open or case.told[KAFKA].committed == case.committed, (
        "none goes further than what is open"
    )
