"""Records of version 3 whose times cannot be shown are refused before they are written."""

from typing import cast

import pytest

from log_service.client import RecordMetadata
from log_service.client.connections.cluster_view import TopicView
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.producing import OutgoingRecord
from log_service.http.rest_proxy.v3.records import MAX_TIMESTAMP_MS, prepared_record, shown_outcome

TOPIC = cast("TopicView", None)
"""Nothing reads the topic of a record that names no partition."""


def test_a_time_after_the_year_9999_is_refused() -> None:
    """A record was written first, and its client then got a 500 and wrote it again."""
    _, record = prepared_record({"timestamp": MAX_TIMESTAMP_MS}, TOPIC, {})
    assert record.timestamp_ms == MAX_TIMESTAMP_MS
    with pytest.raises(RestError, match="timestamp"):
        prepared_record({"timestamp": MAX_TIMESTAMP_MS + 1}, TOPIC, {})


def test_a_written_record_is_shown_whatever_its_time_is() -> None:
    metadata = RecordMetadata(topic="t", partition=0, offset=0, timestamp_ms=2**62)
    record = OutgoingRecord(key=None, value=None, headers=(), partition=None, timestamp_ms=None)
    shown = shown_outcome(metadata, {}, record, "c")
    assert shown["error_code"] == 200
    assert shown["timestamp"] == "9999-12-31T23:59:59.999Z"
