"""Lines that several streams send: their bound, and which go first."""

from log_service.http.rest_proxy.v1.line_cache import ENTRY_BYTES, LineCache


def test_the_first_lines_go_first_and_memory_is_bounded() -> None:
    cache = LineCache(3 * (ENTRY_BYTES + 10))
    for number in range(5):
        cache.put(number, b"x" * 10)
    assert [cache.get(number) is not None for number in range(5)] == [False, False, *[True] * 3]
    cache.put("long", b"x" * 10_000)
    assert cache.get("long") is None
    cache.put(7, b"short")
    assert cache.get(7) == b"short"


def test_a_line_counts_once() -> None:
    cache = LineCache(2 * (ENTRY_BYTES + 10))
    for _ in range(100):
        cache.put("same", b"x" * 10)
    cache.put("other", b"x" * 10)
    assert cache.get("same") == cache.get("other")
