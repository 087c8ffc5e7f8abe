"""Record batches (magic 2): views over bytes, building, compression, validation, and the way to Arrow columns.

No input or output happens here. A batch is opened record by record only where a caller asks for its records.

- ``batch``: headers over bytes in place, checksum, stamping, reading the records of one batch
- ``builder``: writing batches
- ``control``: markers
- ``validator``: what a leader looks at before it appends; ``checks``: whether readers can read the records;
  ``rules``: what a log asks of them besides; ``limits``: how much that may cost
- ``times``: finding a record by its timestamp
- ``outline``: what compaction knows of a batch's records; ``rewrite``: batches with fewer records
- ``arrow``, ``columns``: batches to Arrow columns; ``fields``, ``walk``, ``varint_arrays``: the fields of many records at once,
  for them and for consumers; not imported here, because the broker runs without numpy and pyarrow
- ``compression``: bounded codecs
- ``record``, ``varint``: one record
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
from log_service.records.validator import RejectedRecordsError, ValidatedBatches, accept_own_batches, validate_for_append

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
