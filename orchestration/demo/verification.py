"""Proves that every record of a topic is a row or a dead letter, exactly once.

A record is identified by (topic id, partition, offset). Decides from stored data alone, by
comparing the offsets in the log with those in the tables. It trusts no counter.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as pads

from log_service.common.counts import agreed, counted
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.planning import PartitionOffsets
from orchestration.transforms import TopicFeed

Offsets = npt.NDArray[np.int64]
PLACE = ["_topic_id", "_partition", "_offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProof:
    """The result of the proof for one topic and the table that follows it.

    ``faults`` are sentences. There are none if the proof succeeded.
    """

    topic: str
    table: str
    records: int
    rows: int
    dead_letters: int
    faults: tuple[str, ...]


def prove_topic(feed: TopicFeed, log: LogClient, lake: Lake, produced: int | None) -> TopicProof:
    """Compare a topic with its table and dead letters.

    ``produced`` is the number of acknowledged records, if it is known.
    """
    described = log.describe_topic(feed.topic)
    topic_id = described.topic_id if described else ""
    offsets = log.partition_offsets(feed.topic) if described else ()
    snapshot = lake.snapshot(feed.table)
    rows = snapshot.dataset().to_table(columns=PLACE) if snapshot else _empty()
    rejected = (
        DeadLetters(lake)
        .committed()
        .to_table(columns=PLACE, filter=pads.field("target") == feed.table)
    )
    records = sum(one.high_watermark - one.log_start_offset for one in offsets)
    faults = [
        *_count_faults(feed, records, rows.num_rows + rejected.num_rows, produced),
        *_place_faults(
            feed, topic_id, offsets, pa.concat_tables([rows, rejected.cast(rows.schema)])
        ),
    ]
    return TopicProof(
        topic=feed.topic,
        table=feed.table,
        records=records,
        rows=rows.num_rows,
        dead_letters=rejected.num_rows,
        faults=tuple(faults),
    )


def _count_faults(feed: TopicFeed, records: int, found: int, produced: int | None) -> list[str]:
    faults = []
    if produced is not None and records != produced:
        faults.append(
            f"topic {feed.topic} holds {counted(records, 'record')}, and {produced} were"
            " acknowledged"
        )
    if found != records:
        faults.append(
            f"topic {feed.topic} holds {counted(records, 'record')}, and {feed.table} has {found}"
            " rows and dead letters"
        )
    return faults


def _place_faults(
    feed: TopicFeed, topic_id: str, offsets: tuple[PartitionOffsets, ...], places: pa.Table
) -> list[str]:
    faults = []
    strangers = places.num_rows - int(np.count_nonzero(places["_topic_id"].to_numpy() == topic_id))
    if strangers:
        faults.append(
            f"{counted(strangers, 'row')} of {feed.table} came from another topic than {feed.topic}"
            f" ({topic_id})"
        )
    partitions = places["_partition"].to_numpy()
    found = places["_offset"].to_numpy()
    for one in offsets:
        expected = np.arange(one.log_start_offset, one.high_watermark)
        faults += offset_faults(
            f"{feed.topic}-{one.partition}", np.sort(found[partitions == one.partition]), expected
        )
    return faults


def offset_faults(where: str, found: Offsets, expected: Offsets) -> list[str]:
    """Return sentences about offsets that are missing, doubled or beyond the log.

    ``found`` is sorted.
    """
    if np.array_equal(found, expected):
        return []
    distinct, counts = np.unique(found, return_counts=True)
    kinds: Mapping[str, Offsets] = {
        "missing": np.setdiff1d(expected, distinct),
        "there more than once": distinct[counts > 1],
        "not in the log": np.setdiff1d(distinct, expected),
    }
    return [
        f"{where}: {counted(len(some), 'offset')} {agreed(len(some), 'is', 'are')} {what}, the"
        f" first is {some[0]}"
        for what, some in kinds.items()
        if len(some)
    ]


def _empty() -> pa.Table:
    return pa.table(
        {
            "_topic_id": pa.array([], pa.string()),
            "_partition": pa.array([], pa.int32()),
            "_offset": pa.array([], pa.int64()),
        }
    )
