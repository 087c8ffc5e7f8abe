"""Batches of a log, as tests compare them."""

from typing import Any

from log_service.protocol.messages.fetch import FetchPartition
from log_service.records.batch import BatchHeader, iterate_headers, iterate_records
from tests.integration.differential import Cluster
from tests.integration.record_requests import fetch_request, wanted

CLEAN_SECONDS = 40.0


def batches_of(cluster: Cluster, topic: str) -> list[tuple[BatchHeader, bytes]]:
    """Everything that a side holds, batch by batch."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = 0
    while True:
        part: FetchPartition = wanted(0, offset)
        records = bytes(
            cluster.ask(fetch_request(topic, part), 11).responses[0].partitions[0].records or b""
        )
        whole = [
            (header, records[start : start + header.size_bytes])
            for start, header in iterate_headers(records, is_torn_tail_ok=True)
        ]
        whole = [(header, content) for header, content in whole if header.last_offset >= offset]
        if not whole:
            return found
        found += whole
        offset = whole[-1][0].next_offset


def shown(header: BatchHeader, content: bytes) -> dict[str, Any]:
    """A batch as plain values; its checksum where no clock and no compressor has a part in it."""
    is_fixed = header.delete_horizon_ms is None and header.codec == 0
    return {
        "offsets": [header.base_offset, header.last_offset],
        "attributes": header.attributes,
        "times": [header.max_timestamp, header.base_timestamp if is_fixed else None],
        "producer": [header.producer_id, header.producer_epoch, header.base_sequence],
        "checksum": header.crc if is_fixed else None,
        "records": [
            [record.offset, record.timestamp, str(record.key), str(record.value)]
            for record in iterate_records(content)
        ],
    }
