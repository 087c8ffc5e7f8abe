"""A stream is cut into the objects that a parser finds in it, wherever its pieces begin."""

import json
from random import Random

import pytest

from log_service.http.rest_proxy.json_stream import JsonObjects

TEXTS = ["", "{", "}", '"', "\\", '\\"', "\\\\", "a{b}c", "ü\u2028", "\n"]


def random_object(rng: Random, depth: int = 0) -> dict[str, object]:
    """Return an object whose texts have brackets, quotes and backslashes."""
    found: dict[str, object] = {}
    for _ in range(rng.randrange(4)):
        inner: object = rng.choice([None, 1.5, True, rng.choice(TEXTS), [rng.choice(TEXTS)]])
        is_deep = depth < 3 and rng.random() < 0.3
        found[rng.choice(TEXTS)] = random_object(rng, depth + 1) if is_deep else inner
    return found


@pytest.mark.parametrize("seed", range(50))
def test_every_cut_finds_the_same_objects(seed: int) -> None:
    """Pieces may end within a text, and behind a backslash."""
    rng = Random(seed)
    wanted = [random_object(rng) for _ in range(rng.randrange(1, 20))]
    blanks = ["", " ", "\r\n", "\n\t "]
    stream = "".join(f"{json.dumps(each)}{rng.choice(blanks)}" for each in wanted).encode()
    objects, found = JsonObjects(10_000), list[object]()
    while stream:
        size = rng.choice([1, 2, 3, 50])
        found += map(json.loads, objects.add(stream[:size]))
        stream = stream[size:]
    assert found == wanted
    assert objects.is_between


@pytest.mark.parametrize("text", [b"[]", b"1", b'"a"', b"{}x", b"{}}", b"{},{}"])
def test_something_else_than_objects_is_refused(text: bytes) -> None:
    """Nothing says where the next record would begin."""
    objects = JsonObjects(1_000)
    objects.add(text + b"{}")
    assert objects.fault is not None
    assert objects.fault.code == 400


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_the_objects_before_a_fault_are_found_however_the_stream_is_cut(size: int) -> None:
    """They were lost with the piece that has the fault, and the ones behind it never count."""
    stream, objects, found = b'{"a": 1} {"b": 2} oops {"c": 3}', JsonObjects(1_000), list[bytes]()
    for start in range(0, len(stream), size):
        found += objects.add(stream[start : start + size])
    assert found == [b'{"a": 1}', b'{"b": 2}']
    assert objects.fault is not None
    assert not objects.is_between
    assert objects.waiting_bytes == 0


def test_an_object_without_end_is_refused() -> None:
    """A stream cannot fill the memory."""
    objects = JsonObjects(100)
    codes = []
    for _ in range(21):
        objects.add(b'{"a":')
        codes.append(None if objects.fault is None else objects.fault.code)
    assert codes == [None] * 20 + [413]
