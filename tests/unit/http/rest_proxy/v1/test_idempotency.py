"""The places that a write with a key keeps: what a repeat reads is what the first time wrote."""

import json
import random
from typing import Any

import pytest

from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.producing import OutgoingRecord
from log_service.http.rest_proxy.v1.idempotency import (
    ANOTHER_BODY,
    MAX_NOTE_CHARACTERS,
    KeyedBody,
    Place,
    checked_key,
    keyed_id,
    notes_of,
    places_of,
)

KEYS = (None, b"a", b"b", b"c")


def keyed(
    records: list[OutgoingRecord], body: bytes = b"body", encoding: str = "auto"
) -> KeyedBody:
    """Return records under a key."""
    return KeyedBody.of("name", "t", encoding, body, records)


def written(partitions: list[int], rng: random.Random) -> list[Place]:
    """Return places as a log gives them: growing, with records of others between."""
    ends = dict.fromkeys(partitions, 5)
    places = []
    for partition in partitions:
        places.append((partition, ends[partition]))
        ends[partition] += 1 if rng.random() < 0.99 else 7
    return places


@pytest.mark.parametrize("seed", range(50))
def test_a_repeat_reads_what_was_written(seed: int) -> None:
    rng = random.Random(seed)
    records = [
        OutgoingRecord(key=rng.choice(KEYS), partition=rng.choice((None, None, 0)))
        for _ in range(rng.randrange(1, 400))
    ]
    first, again, count = keyed(records), keyed(list(records)), rng.randrange(1, 9)
    places = written(first.partitions(count), rng)
    notes = notes_of(first, places, count)
    assert places_of(again, {number: note.metadata for number, note in notes.items()}) == places
    for partition, note in notes.items():
        assert note.offset == 1 + max(offset for number, offset in places if number == partition)


def test_a_repeat_knows_its_places_after_the_topic_grew() -> None:
    """The partition of a key depends on the number of partitions."""
    first = keyed([OutgoingRecord(key=bytes([n])) for n in range(100)])
    places = [(partition, n) for n, partition in enumerate(first.partitions(3))]
    notes = {number: note.metadata for number, note in notes_of(first, places, 3).items()}
    assert places_of(first, notes) == places


def test_offsets_that_are_not_known_stay_unknown() -> None:
    first = keyed([OutgoingRecord(), OutgoingRecord()])
    (partition, _) = first.partitions(1)
    notes = notes_of(first, [(partition, -1), (partition, -1)], 1)
    found = places_of(first, {number: note.metadata for number, note in notes.items()})
    assert found == [(0, -1), (0, -1)]


@pytest.mark.parametrize(
    "other",
    [keyed([OutgoingRecord()], b"other"), keyed([OutgoingRecord()], encoding="json")],
    ids=["bytes", "encoding"],
)
def test_a_key_belongs_to_one_body(other: KeyedBody) -> None:
    notes = notes_of(keyed([OutgoingRecord()]), [(0, 4)], 1)
    with pytest.raises(RestError, match="another body") as refused:
        places_of(other, {number: note.metadata for number, note in notes.items()})
    assert (refused.value.code, refused.value.status) == (ANOTHER_BODY, 422)


@pytest.mark.parametrize("text", ["", "null", "[1]", "{", '{"body": "x"}', "[" * 4_000])
def test_offsets_of_something_else_are_another_body(text: str) -> None:
    with pytest.raises(RestError, match="another body"):
        places_of(keyed([OutgoingRecord()]), {0: text})


@pytest.mark.parametrize(
    "content",
    [
        {"partitions": 1, "runs": [[0, 10**12]]},
        {"partitions": 1, "runs": [[0, 2], [2, 2]]},
        {"partitions": 1, "runs": [[0, 1]] * 3},
        {"partitions": 1, "runs": [[0, 1]]},
        {"partitions": 1, "runs": [[0, -1], [0, 2]]},
        {"partitions": 1, "runs": [[0]]},
        {"partitions": 1, "runs": {"0": 1}},
        {"partitions": 1, "runs": [[float("inf"), 1]]},
        {"partitions": 0, "runs": [[0, 2]]},
        {"partitions": 10**6, "runs": [[0, 2]]},
        {"runs": [[0, 2]]},
        {},
    ],
    ids=str,
)
def test_forged_places_are_another_body(content: dict[str, Any]) -> None:
    """A client that may commit the offsets of a group writes their text, also with a vast number."""
    own = keyed([OutgoingRecord(), OutgoingRecord()])
    with pytest.raises(RestError, match="another body"):
        places_of(own, {0: json.dumps({"body": own.digest, **content})})


def test_places_that_do_not_fit_are_refused_before_the_commit() -> None:
    """The cluster would refuse the offsets, and the key could never be used."""
    records = [OutgoingRecord()] * 2_000
    with pytest.raises(RestError, match="fewer") as refused:
        notes_of(keyed(records), [(0, n * 2) for n in range(2_000)], 1)
    assert refused.value.status == 413
    notes = notes_of(keyed(records), [(0, n) for n in range(2_000)], 1)
    assert len(notes[0].metadata) < MAX_NOTE_CHARACTERS


def test_users_topics_and_keys_have_names_of_their_own() -> None:
    names = {
        keyed_id(user, topic, key)
        for user in ("User:ann", "User:bob")
        for topic in ("t", "t\0k")
        for key in ("k", "k2")
    }
    assert len(names) == 8
    assert all(name.startswith(("rest-once-ann:", "rest-once-bob:")) for name in names)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "ä"])
def test_a_key_is_short_and_printable(key: str) -> None:
    with pytest.raises(RestError, match="printable"):
        checked_key(key)
