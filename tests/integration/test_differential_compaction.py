"""Compaction leaves the same batches as Apache Kafka's after the same history.

They are the same to the byte if nothing is compressed.
"""

import time
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from log_service.records.batch import iterate_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from tests.integration.differential import Cluster, Duel
from tests.integration.record_requests import THEN, configs_request, produce_request, ready_topic
from tests.integration.shown_batches import CLEAN_SECONDS, batches_of, shown

Pair = tuple[bytes | None, bytes | None]


class History:
    """Batches in segments of one topic.

    At any time it knows which records below the active segment are the latest of their keys.
    """

    def __init__(self, duel: Duel, topic: str) -> None:
        self.duel = duel
        self.topic = topic
        self.offset = 0
        self.segment = 0
        self.closed: dict[int, Pair] = {}
        self.open: dict[int, Pair] = {}
        self.gone: set[int] = set()

    def write(self, *records: Pair, codec: Codec = Codec.NONE, **header: Any) -> None:
        """Append a batch on both sides."""
        rows = [(THEN + 10 * self.segment, key, value) for key, value in records]
        self.duel.on_both(produce_request(self.topic, build_batch(rows, codec=codec, **header)), 11)
        self.open.update({self.offset + index: pair for index, pair in enumerate(records)})
        self.offset += len(records)

    def next_segment(self) -> None:
        """Let the next batch begin another segment."""
        self.segment += 1
        self.closed |= self.open
        self.open = {}

    def clean(self) -> None:
        """Close the last segment and have both sides clean everything before it; wait until they
        have.
        """
        self.next_segment()
        self.write((b"active %d" % self.segment, b"-"))
        latest = {key: offset for offset, (key, _) in self.closed.items()}
        left = [
            offset
            for offset, (key, _) in self.closed.items()
            if key is not None and latest[key] == offset and offset not in self.gone
        ]
        expected = [*left, *self.open]
        self.duel.on_both(configs_request(self.topic, min_cleanable_dirty_ratio="0"), 1)
        for cluster in self.duel.clusters.sides():
            wait_for(cluster, self.topic, expected)
        self.duel.on_both(configs_request(self.topic, min_cleanable_dirty_ratio="1"), 1)

    def compare(self) -> None:
        """Hold what both hold now against each other."""
        self.duel.compare_told(
            lambda cluster: [
                shown(header, content) for header, content in batches_of(cluster, self.topic)
            ]
        )


def begin(duel: Duel, topic: str, **configs: str) -> History:
    settings: dict[str, Any] = {
        "segment_ms": "1",
        "min_cleanable_dirty_ratio": "1",
        "cleanup_policy": "compact",
        **configs,
    }
    ready_topic(duel, topic, **settings)
    return History(duel, topic)


def offsets_of(cluster: Cluster, topic: str) -> list[int]:
    return [
        record.offset
        for _, content in batches_of(cluster, topic)
        for record in iterate_records(content)
    ]


def wait_for(cluster: Cluster, topic: str, expected: Sequence[int]) -> None:
    """Wait until a side holds exactly these offsets."""
    deadline = time.monotonic() + CLEAN_SECONDS
    while (held := offsets_of(cluster, topic)) != list(expected):
        assert time.monotonic() < deadline, (
            f"{cluster.bootstrap} holds {held}, it should hold {list(expected)}"
        )
        time.sleep(0.1)


def test_of_each_key_the_latest_record_stays(duel: Duel) -> None:
    history = begin(duel, "latest")
    for number in range(4):
        history.write((b"a", b"%d" % number), (b"b", b"%d" % number))
        history.write((b"a", b"x"), (b"%d" % number, b"once"))
        history.next_segment()
    history.clean()
    history.compare()


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_their_codec_and_their_times(duel: Duel, codec: Codec) -> None:
    history = begin(duel, f"codec-{codec.name.lower()}")
    for number in range(3):
        history.write(
            *[(b"%d" % (index % 4), b"value %d %d" % (number, index)) for index in range(8)],
            codec=codec,
        )
        history.next_segment()
        history.write((b"0", b"later"), codec=codec)
    history.clean()
    history.compare()


def test_tombstones_get_a_horizon_and_go_with_the_next_pass(duel: Duel) -> None:
    history = begin(duel, "tombstones", delete_retention_ms="0")
    history.write((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    history.next_segment()
    history.write((b"a", None), (b"b", b"2"))
    history.clean()
    history.compare()
    history.gone.add(3)
    history.write((b"d", b"1"))
    history.clean()
    history.compare()


def test_tombstones_stay_before_their_horizon(duel: Duel) -> None:
    history = begin(duel, "kept-tombstones", delete_retention_ms="86400000")
    history.write((b"a", b"1"), (b"a", None), (b"b", None))
    history.clean()
    history.write((b"c", b"1"))
    history.clean()
    history.compare()


def test_the_last_sequence_of_each_producer_stays(duel: Duel) -> None:
    history = begin(duel, "producers")
    for number in range(3):
        for producer_id in (70, 71):
            history.write(
                (b"a", b"1"),
                (b"b", b"1"),
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=2 * number,
            )
        history.next_segment()
    history.write((b"a", b"2"), (b"b", b"2"))
    history.clean()
    history.compare()
    for producer_id in (70, 71):
        again = build_batch(
            [(THEN, b"n", b"-")] * 2, producer_id=producer_id, producer_epoch=0, base_sequence=4
        )
        duel.compare(produce_request("producers", again), 11, ignore=("log_start_offset",))
        gap = build_batch(
            [(THEN, b"n", b"-")], producer_id=producer_id, producer_epoch=0, base_sequence=9
        )
        duel.compare(
            produce_request("producers", gap), 11, ignore=("log_start_offset", "error_message")
        )


def test_records_without_a_key_go_and_the_last_batch_of_a_pass_stays_as_a_header(
    duel: Duel,
) -> None:
    history = begin(duel, "keyless", cleanup_policy="delete")
    history.write((None, b"1"), (b"a", b"1"))
    history.next_segment()
    history.write((None, b"2"))
    duel.on_both(configs_request("keyless", cleanup_policy="compact"), 1)
    history.clean()
    history.compare()


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_leave_the_same(duel: Duel, seed: int) -> None:
    rng = Random(seed)
    history = begin(duel, f"random-{seed}")
    sequences = {80: 0, 81: 0}
    for _ in range(2):
        for _ in range(25):
            size = rng.randint(1, 4)
            records = [
                (
                    rng.choice([b"a", b"b", b"c", b"d", b"e" * 90]),
                    rng.choice([b"value", b"", b"other", None]),
                )
                for _ in range(size)
            ]
            producer_id = rng.choice([-1, 80, 81])
            header: dict[str, Any] = (
                {
                    "producer_id": producer_id,
                    "producer_epoch": 0,
                    "base_sequence": sequences[producer_id],
                }
                if producer_id > 0
                else {}
            )
            history.write(*records, **header)
            if producer_id > 0:
                sequences[producer_id] += size
            if rng.random() < 0.3:
                history.next_segment()
        history.clean()
        history.compare()
