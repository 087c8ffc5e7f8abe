"""Writes the records of a request once, however often the request comes, at any proxy.

The records and their positions are written in one transaction. Its transactional id is derived from
user, topic and key. The positions are committed as offset metadata of a group with the same name. A
repeated request reads them there.

- A repeat first looks for committed positions. They never change, so it responds with them.
- Otherwise it initializes the transactional id. That fences an earlier attempt that still runs or
  died, and waits for one whose commit has begun. Only then it looks once more, and writes if there
  are still no positions.

Invariant: of all attempts with one key at most one commits, because positions are read under the
producer epoch that writes them. Limits: readers of uncommitted records see aborted attempts, and
the cluster forgets positions after ``offsets.retention.minutes``.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Final, TypeVar

import trio

from log_service.client import (
    Admin,
    ConsumerGroupMetadata,
    ErrorCode,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    TopicPartition,
    partition_of_key,
)
from log_service.http import ONCE_PREFIX
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RETRY, RestError
from log_service.http.rest_proxy.producing import OutgoingRecord, send_all

KEY_HEADER: Final = "idempotency-key"
REPLAYED: Final = "idempotent-replayed"
"""The header of a response whose records an earlier request has written."""
MAX_KEY_CHARACTERS: Final = 255
MAX_NOTE_CHARACTERS: Final = 4_000
"""Below Kafka's default of ``offset.metadata.max.bytes``."""
TRANSACTION_MS: Final = 30_000
"""How long an attempt that died holds back readers of committed records, unless it is repeated."""
TIMES_MS: Final = {"max_block_ms": 20_000, "request_timeout_ms": 5_000}
ANOTHER_BODY: Final = 42206
TAKEN_OVER: Final = 40904
FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors of an attempt whose transaction another attempt has ended or keeps busy."""

NOT_OURS: Final = (
    ValueError, TypeError, LookupError, ArithmeticError, StopIteration, RecursionError
)  # fmt: skip
"""What reading the committed text of something else raises."""
FEW: Final = 200
"""Work on more records is done in threads, so that other requests are handled meanwhile."""

T = TypeVar("T")
Place = tuple[int, int]
"""Partition and offset of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBody:
    """The records of a request with an idempotency key.

    ``name`` is the transactional id. ``digest`` is a hash of the body.
    """

    name: str
    topic: str
    digest: str
    records: Sequence[OutgoingRecord]

    @classmethod
    def of(
        cls, name: str, topic: str, encoding: str, body: bytes, records: Sequence[OutgoingRecord]
    ) -> "KeyedBody":
        """Make a value of a body and its records. ``name`` is the transactional id of the key."""
        digest = sha256(f"{encoding}\n".encode() + body).digest()
        return cls(name=name, topic=topic, digest=_short(digest), records=records)

    async def work(self, work: Callable[[], T]) -> T:
        """Call ``work``, in a thread if there are many records, and return its result."""
        return work() if len(self.records) <= FEW else await trio.to_thread.run_sync(work)

    def partitions(self, count: int) -> list[int]:
        """Return the partition of each record, in a topic of ``count`` partitions.

        It depends only on the body and the key, so a repeat computes the same partitions.
        """
        own = int.from_bytes(sha256(self.name.encode()).digest()[:8]) % count
        found = []
        for each in self.records:
            by_key = own if each.key is None else partition_of_key(each.key, count)
            found.append(by_key if each.partition is None else each.partition)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The partition and offset of each record.

    ``is_repeat`` tells that an earlier request has written them.
    """

    places: Sequence[Place]
    is_repeat: bool


def checked_key(text: str) -> str:
    """Return an idempotency key if it is valid.

    Raises:
        RestError: 422, the key is empty, too long or not printable.
    """
    if not 0 < len(text) <= MAX_KEY_CHARACTERS or not text.isascii() or not text.isprintable():
        bound = f"1 to {MAX_KEY_CHARACTERS} printable characters of ASCII"
        raise RestError(422, f"{KEY_HEADER} has to have {bound}.")
    return text


def keyed_id(principal: str, topic: str, key: str) -> str:
    """Return the name of a key, which is both a transactional id and a group id.

    Each user has different names. A login over HTTP has no colon (RFC 7617), so the colon ends the
    user's name. A right to one user's prefix therefore never covers a user with a longer name.
    """
    user = principal.partition(":")[2]
    digest = sha256(f"{principal}\0{topic}\0{key}".encode()).digest()
    return f"{ONCE_PREFIX}{user}:{_short(digest)}"


def notes_of(keyed: KeyedBody, places: Sequence[Place], count: int) -> dict[int, OffsetAndMetadata]:
    """Return the offset and metadata to commit for each partition that got records.

    The metadata has the positions of the partition's records. Consecutive offsets are kept as the
    first offset and their count.

    Raises:
        RestError: 413, there are too many positions for the metadata.
    """
    runs: dict[int, list[list[int]]] = {}
    for partition, offset in places:
        own = runs.setdefault(partition, [])
        if own and offset >= 0 and own[-1][0] + own[-1][1] == offset:
            own[-1][1] += 1
        else:
            own.append([offset, 1])
    notes = {}
    for partition, own in runs.items():
        content = {"body": keyed.digest, "partitions": count, "runs": own}
        text = json.dumps(content, separators=(",", ":"))
        if len(text) > MAX_NOTE_CHARACTERS:
            raise RestError(413, f"The records do not fit one write with {KEY_HEADER}: send fewer.")
        last, number = own[-1]
        notes[partition] = OffsetAndMetadata(offset=max(last, 0) + number, metadata=text)
    return notes


def places_of(keyed: KeyedBody, notes: Mapping[int, str]) -> list[Place]:
    """Return the partition and offset of each record, from the committed metadata by partition.

    Raises:
        RestError: 42206, the key was used with another body.
    """
    offsets: dict[int, list[int]] = {}
    try:
        for partition, text in notes.items():
            count, offsets[partition] = _offsets_in(text, keyed)
        following = {partition: iter(own) for partition, own in offsets.items()}
        return [(partition, next(following[partition])) for partition in keyed.partitions(count)]
    except NOT_OURS as error:
        advice = "use a key once, or send that body"
        raise RestError(
            ANOTHER_BODY, f"{KEY_HEADER} was used with another body: {advice}."
        ) from error


def _offsets_in(text: str, keyed: KeyedBody) -> tuple[int, list[int]]:
    """Return the number of partitions and the offsets in a partition's committed metadata.

    A client may have committed the metadata at the cluster, so its numbers are checked.

    Raises:
        Exception: one of ``NOT_OURS``, the metadata is not ours or is of another body.
    """
    content = json.loads(text)
    count, runs = (
        int(content["partitions"]),
        [(int(each[0]), int(each[1])) for each in content["runs"]],
    )
    most = len(keyed.records)
    is_possible = count > 0 and all(0 < number <= most for _, number in runs)
    if content["body"] != keyed.digest or not is_possible or len(runs) > most:
        raise ValueError("these are the places of other records")
    if sum(number for _, number in runs) > most:
        raise ValueError("these are more places than records")
    offsets = [
        first + step if first >= 0 else -1 for first, number in runs for step in range(number)
    ]
    return count, offsets


async def write_once(call: Call, keyed: KeyedBody, count: int) -> Written:
    """Write records to a topic of ``count`` partitions, unless an earlier request has written them.

    Raises:
        RestError: 42206, the key was used with another body. 40904, another request with the key
            took over.
        KafkaError: nothing was written, or the outcome is unknown. A repeat of the request resolves
            it.
    """
    admin = await call.admin()
    known = await _known(admin, keyed, is_stable=False)
    if known is not None:
        return known
    settings = {**call.clients.settings(), **TIMES_MS, "delivery_timeout_ms": TRANSACTION_MS}
    make = partial(
        Producer,
        call.clients.servers,
        env=call.clients.env,
        transactional_id=keyed.name,
        transaction_timeout_ms=TRANSACTION_MS,
        batch_size=1 << 20,
        **settings,
    )
    try:
        async with await trio.to_thread.run_sync(make) as producer:
            await producer.init_transactions()
            known = await _known(admin, keyed, is_stable=True)
            return await _write(producer, keyed, count) if known is None else known
    except KafkaError as error:
        if error.code not in FENCED:
            raise
        text = "Another request with this key took over: send it again to get its result."
        raise RestError(TAKEN_OVER, text, RETRY) from error


async def _write(producer: Producer, keyed: KeyedBody, count: int) -> Written:
    records = await keyed.work(partial(_placed, keyed, count))
    async with producer.transaction():
        outcomes = await send_all(producer, keyed.topic, records)
        places = [_place(each) for each in outcomes]
        notes = await keyed.work(partial(notes_of, keyed, places, count))
        offsets = {TopicPartition(keyed.topic, number): note for number, note in notes.items()}
        group = ConsumerGroupMetadata(group_id=keyed.name)
        await producer.send_offsets_to_transaction(offsets, group)
    return Written(places=places, is_repeat=False)


def _placed(keyed: KeyedBody, count: int) -> list[OutgoingRecord]:
    """Return the records with their partitions set, for a topic of ``count`` partitions."""
    return [
        replace(each, partition=partition)
        for each, partition in zip(keyed.records, keyed.partitions(count), strict=True)
    ]


def _place(outcome: RecordMetadata | KafkaError) -> Place:
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome.partition, outcome.offset


async def _known(admin: Admin, keyed: KeyedBody, *, is_stable: bool) -> Written | None:
    try:
        found = await admin.list_group_offsets(keyed.name, is_stable_required=is_stable)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise
    notes = {
        where.partition: each.metadata
        for where, each in found.items()
        if where.topic == keyed.topic
    }
    if not notes:
        return None
    places = await keyed.work(partial(places_of, keyed, notes))
    return Written(places=places, is_repeat=True)


def _short(digest: bytes) -> str:
    return urlsafe_b64encode(digest).decode("ascii").rstrip("=")
