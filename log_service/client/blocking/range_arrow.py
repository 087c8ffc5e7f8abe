"""Reads one range of offsets as Arrow columns, for programs without an event loop.

``range_reader`` reads the batches of the range, and ``records.arrow`` turns them into columns.
pyarrow is imported only when the first columns are requested.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from log_service.client.blocking.admin import BlockingAdmin
from log_service.client.consumer.range_reader import DEFAULT_MAX_BYTES
from log_service.common.types import TopicPartition
from log_service.records.arrow import UnreadableBatch, iterate_record_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["UnreadableBatch", "read_range_arrow"]


def read_range_arrow(
    bootstrap_servers: str,
    topic_partition: TopicPartition | tuple[str, int],
    start: int,
    end: int,
    *,
    isolation_level: str = "read_committed",
    max_bytes: int = DEFAULT_MAX_BYTES,
    timeout_ms: int | None = None,
    topic_id: UUID | None = None,
    on_unreadable: Callable[[UnreadableBatch], Any] | None = None,
    **settings: Any,
) -> Iterator["pa.RecordBatch"]:
    """Yield the records of the offsets [start, end) as ``pyarrow.RecordBatch``. The call blocks.

    The columns are those of ``records.arrow.schema``. All arguments are plain values, so that
    another process, such as a Spark worker, can make the call. For a batch that cannot be read, the
    result of ``on_unreadable`` is yielded instead. The other arguments and the errors are those of
    ``range_reader.read_range``. ``settings`` are those of ``AdminConfig``.
    """
    partition = TopicPartition(*topic_partition)
    with BlockingAdmin(bootstrap_servers, **settings) as admin:
        chunks = admin.read_range(
            partition,
            start,
            end,
            isolation_level=isolation_level,
            max_bytes=max_bytes,
            check_crcs=False,
            timeout_ms=timeout_ms,
            topic_id=topic_id,
        )
        yield from iterate_record_batches(
            (chunk.batches for chunk in chunks), start, end, on_unreadable=on_unreadable
        )
