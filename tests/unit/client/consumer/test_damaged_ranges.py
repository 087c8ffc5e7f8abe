"""A reader of a range with a wrong checksum reads or names every offset that had a record.

The batch's header may claim anything.
"""

from collections.abc import Awaitable, Callable
from struct import pack_into
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
import trio

from log_service.client.consumer.range_reader import HasCluster, read_range
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from log_service.records.arrow import UnreadableBatch, iterate_record_batches
from log_service.records.batch import ATTRIBUTES_POSITION, CONTROL_FLAG, CorruptBatch, parse_header
from log_service.records.builder import build_batch

WHERE = TopicPartition("t", 0)
LAST_OFFSET_DELTA = 23
BATCH = 10
END = 50


class BelievingBroker:
    """A broker that finds batches by their headers in segments of two batches, and checks nothing."""

    def __init__(self, batches: list[bytes]) -> None:
        self.segments = [batches[at : at + 2] for at in range(0, len(batches), 2)]
        self.config = SimpleNamespace(default_api_timeout_ms=20)
        self.view = SimpleNamespace(partition=lambda _: 0, topic_id_of=lambda _: NO_TOPIC_ID)

    async def retry(self, call: Callable[[], Awaitable[Any]], _limit_ms: int) -> Any:
        return await call()

    async def leader(self, _partition: TopicPartition, _purpose: str) -> "BelievingBroker":
        return self

    async def request(
        self, request: FetchRequest, _response: type, **_options: Any
    ) -> FetchResponse:
        await trio.lowlevel.checkpoint()
        wanted = request.topics[0].partitions[0]
        data = PartitionData(
            records=self._read(wanted.fetch_offset, wanted.partition_max_bytes),
            high_watermark=END,
            last_stable_offset=END,
            log_start_offset=0,
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def _read(self, offset: int, max_bytes: int) -> bytes:
        bases = [parse_header(segment[0]).base_offset for segment in self.segments]
        first = max((number for number, base in enumerate(bases) if base <= offset), default=0)
        for segment in self.segments[first:]:
            reaching = [batch for batch in segment if parse_header(batch).last_offset >= offset]
            if reaching:
                whole = b"".join(segment[segment.index(reaching[0]) :])
                return whole[: max(max_bytes, len(reaching[0]))]
        return b""


def batches(damaged: int | None, claimed: int = BATCH - 1, flags: int = 0) -> list[bytes]:
    """Five batches of ten records, one of which has a damaged header."""
    made = [
        bytearray(build_batch([(0, None, b"v")] * BATCH, base_offset=base))
        for base in range(0, END, BATCH)
    ]
    if damaged is not None:
        pack_into(">i", made[damaged], LAST_OFFSET_DELTA, claimed)
        pack_into(">h", made[damaged], ATTRIBUTES_POSITION, flags)
        made[damaged][-1] ^= 1
    return [bytes(batch) for batch in made]


def read(log: list[bytes], start: int, end: int, max_bytes: int) -> tuple[list[int], list[int]]:
    """Return the offsets that were read, and those that were named as unreadable."""
    chunks: list[Any] = []

    async def main() -> None:
        client = cast("HasCluster", SimpleNamespace(cluster=BelievingBroker(log)))
        async for chunk in read_range(
            client, WHERE, start, end, max_bytes=max_bytes, check_crcs=False
        ):
            chunks.append(chunk.batches)  # noqa: PERF401 - an asynchronous loop

    trio.run(main)
    named: list[int] = []

    def name(batch: UnreadableBatch) -> pa.RecordBatch:
        named.extend(range(batch.start, batch.end))
        return pa.RecordBatch.from_pydict({"offset": pa.array([], pa.int64())})

    found = iterate_record_batches(chunks, start, end, on_unreadable=name)
    return [offset for one in found for offset in one["offset"].to_pylist()], named


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
@pytest.mark.parametrize("flags", [0, CONTROL_FLAG])
@pytest.mark.parametrize("claimed", [0, 2, 10, 25, 1 << 22])
@pytest.mark.parametrize("damaged", range(5))
def test_every_offset_is_read_or_named(
    damaged: int, claimed: int, flags: int, max_bytes: int
) -> None:
    log = batches(damaged, claimed, flags)
    bad = range(damaged * BATCH, (damaged + 1) * BATCH)
    for start, end in [
        (0, END),
        (0, bad.start + 5),
        (bad.start, bad.stop),
        (bad.start + 5, END),
        (bad.start + 5, bad.start + 7),
    ]:
        rows, named = read(log, start, end, max_bytes)
        assert rows == [offset for offset in range(start, end) if offset not in bad], (start, end)
        assert named == [offset for offset in range(start, end) if offset in bad], (start, end)


def test_a_hole_of_compaction_at_the_start_names_nothing() -> None:
    log = batches(None)
    del log[2]
    for start in range(END):
        assert read(log, start, END, 400) == (
            [one for one in range(start, END) if not 20 <= one < 30],
            [],
        )


@pytest.mark.parametrize("start", [0, 13, 15])
def test_a_reader_that_checks_raises_whatever_the_header_claims(start: int) -> None:
    client = cast(
        "HasCluster", SimpleNamespace(cluster=BelievingBroker(batches(1, 2, CONTROL_FLAG)))
    )

    async def main() -> None:
        async for _ in read_range(client, WHERE, start, END):
            pass

    with pytest.raises(CorruptBatch, match="checksum of the batch at offset 10 does not hold"):
        trio.run(main)
