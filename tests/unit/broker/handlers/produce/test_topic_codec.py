"""A topic's own codec: its level, who pays for it, and what it leaves alone."""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.records.batch import HEADER_SIZE, iterate_headers
from log_service.records.builder import build_batch
from log_service.records.compression import Codec, compress
from tests.unit.broker.context import Story, tell, values_of

VALUES = [
    b"the %d-th value of a batch that has enough of them to be worth it" % number
    for number in range(200)
]
PLAIN = build_batch(
    [(1_700_000_000_000 + number, b"k", value) for number, value in enumerate(VALUES)]
)


async def stored(node: Story, records: bytes, **configs: Any) -> bytes:
    """Store a batch in a topic with these configurations, and return the stored batch."""
    await node.create_topic("a", retention_ms="-1", **configs)
    assert (await node.produce("a", records)).error_code == 0
    found: Any = (await node.fetch("a", 0)).records
    return bytes(found)


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("gzip", None, None),
        ("gzip", 1, 1),
        ("gzip", 9, 9),
        ("lz4", None, 9),
        ("lz4", 1, 1),
        ("zstd", None, 3),
        ("zstd", 19, 19),
        ("zstd", -5, -5),
        ("snappy", None, None),
    ],
)
def test_batches_are_stored_in_the_topics_codec_and_level(
    name: str, level: int | None, expected: int | None
) -> None:
    configs: dict[str, Any] = {"compression_type": name} | (
        {} if level is None else {f"compression_{name}_level": str(level)}
    )

    async def story(node: Story) -> None:
        found = await stored(node, PLAIN, **configs)
        assert found[HEADER_SIZE:] == compress(Codec.of_name(name), PLAIN[HEADER_SIZE:], expected)
        assert values_of(found) == VALUES
        ((_, header),) = iterate_headers(found)
        assert (header.codec, header.record_count, header.max_timestamp) == (
            Codec.of_name(name),
            200,
            1_700_000_000_199,
        )

    tell(story)


def test_a_level_changes_nothing_where_the_codec_is_the_producers() -> None:
    """The level is what the broker compresses with, and it does not compress again what is
    compressed.
    """

    async def story(node: Story) -> None:
        sent = build_batch(
            [(1_700_000_000_000, b"k", value) for value in VALUES], codec=Codec.GZIP, level=9
        )
        assert (await stored(node, sent, compression_type="gzip", compression_gzip_level="1"))[
            HEADER_SIZE:
        ] == sent[HEADER_SIZE:]

    tell(story)


def test_the_size_that_counts_is_that_of_the_stored_batch() -> None:
    async def story(node: Story) -> None:
        sent = build_batch([(1_700_000_000_000, b"k", value) for value in VALUES], codec=Codec.GZIP)
        await node.create_topic(
            "a", compression_type="uncompressed", max_message_bytes=str(len(sent) + 10)
        )
        assert (await node.produce("a", sent)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await node.fetch("a", 0)).high_watermark == 0

    tell(story)
