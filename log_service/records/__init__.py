"""Record batches (magic 2), from building and validation to Arrow columns.

The package does no input or output. A batch is opened record by record only if a caller needs its
records.

- ``batch``: headers over bytes in place, checksum, stamping, and the records of one batch.
- ``builder``: building batches.
- ``control``: control batches with markers.
- ``validator``: a leader's checks before an append. ``checks``: whether readers can read records.
- ``schema_names``: the schemas that keys and values name. ``schema_columns``: the same for many
  records at once.
- ``rules``: a log's demands on single records. ``limits``: bounds on the cost of checks.
- ``times``: finding a record by its timestamp.
- ``outline``: keys and offsets of records for compaction. ``rewrite``: batches with fewer records.
- ``arrow`` and ``columns``: batches to Arrow columns.
- ``fields``, ``walk`` and ``varint_arrays``: fields of many records at once, for columns and
  consumers. ``numbered_walk``: the same for checks of one batch, faster. None of them is imported
  here, because the broker runs without numpy and pyarrow.
- ``compression``: bounded codecs.
- ``record`` and ``varint``: one record.
"""

from log_service.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    batch_view,
    compute_crc,
    is_crc_valid,
    iterate_headers,
    iterate_records,
    next_sequence,
    parse_header,
    stamp,
    stamp_append_time,
    stamp_producer,
)
from log_service.records.builder import BatchBuilder, build_batch
from log_service.records.compression import Codec, compress, decompress
from log_service.records.record import NewRecord, Record, RecordHeader, max_record_bytes
from log_service.records.validator import (
    RejectedRecordsError,
    ValidatedBatches,
    accept_own_batches,
    validate_for_append,
)

__all__ = [
    "HEADER_SIZE",
    "BatchBuilder",
    "BatchHeader",
    "Codec",
    "CorruptBatch",
    "NewRecord",
    "Record",
    "RecordHeader",
    "RejectedRecordsError",
    "ValidatedBatches",
    "accept_own_batches",
    "batch_view",
    "build_batch",
    "compress",
    "compute_crc",
    "decompress",
    "is_crc_valid",
    "iterate_headers",
    "iterate_records",
    "max_record_bytes",
    "next_sequence",
    "parse_header",
    "stamp",
    "stamp_append_time",
    "stamp_producer",
    "validate_for_append",
]
