"""Draws records from a seed, of contents that look like the lengths of records or do not."""

import random

from log_service.records.record import NewRecord

ALPHABETS = {
    "text": b"abcdefgh {}:\"',0123456789",
    "bytes": bytes(range(256)),
    "lengths": b"\x00\x00\x01\x0e\x80\x90\xc8\x01\x02",  # looks like the beginnings of records everywhere
    "zeros": b"\x00",
}


def records_of(
    seed: int, count: int, alphabet: bytes, max_bytes: int, *, has_headers: bool
) -> list[NewRecord]:
    chosen = random.Random(seed)

    def some(limit: int) -> bytes:
        return bytes(chosen.choices(alphabet, k=chosen.randrange(limit + 1)))

    return [
        NewRecord(
            1_700_000_000_000 + chosen.randrange(-5, 5) * index,
            None if chosen.randrange(2) else some(20),
            None if chosen.randrange(9) == 0 else some(max_bytes),
            (("name", some(9)), ("other", None))
            if has_headers and chosen.randrange(3) == 0
            else (),
        )
        for index in range(count)
    ]
