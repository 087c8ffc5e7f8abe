"""A record with very many headers is long, so that other threads work on it."""

import threading

import pytest
import trio

from log_service.client import ConsumerRecord
from log_service.http.record_formats import records
from log_service.http.record_formats.decoding import RecordDecoder
from log_service.http.record_formats.records import MANY_HEADERS, DecodedRecord, decoded


def record_with(header_count: int) -> ConsumerRecord:
    """Return a record without a key and a value."""
    return ConsumerRecord("t", 0, 0, 0, "CreateTime", None, None, (("", None),) * header_count, 0)


@pytest.mark.parametrize("count", [MANY_HEADERS, MANY_HEADERS + 1])
def test_many_headers_are_measured_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A record of 1 MiB may have 500,000 empty headers, whose JSON took the loop a second."""
    threads: list[threading.Thread] = []
    measure = records.size_of_headers

    def noted(headers: tuple[tuple[str, bytes | None], ...]) -> int:
        threads.append(threading.current_thread())
        return measure(headers)

    monkeypatch.setattr(records, "size_of_headers", noted)

    async def run() -> DecodedRecord:
        return await decoded(RecordDecoder(None), record_with(count), "auto")

    found = trio.run(run)
    is_many = count > MANY_HEADERS
    assert found.size >= count
    assert found.is_long is is_many
    assert [each is threading.main_thread() for each in threads] == [not is_many]
