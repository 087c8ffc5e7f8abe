"""A cache of decoded Produce requests: repeated ones are recognized by their bytes.

A producer sends the same request to a partition over and over. Only the correlation id and the
records differ between its requests, and only the correlation id and three numbers between the
responses. So the bytes between the correlation id and the records are the key of an entry. The
entry has the decoded request without records, and the bytes of the response around those numbers.

The cache only saves decoding and encoding. A recognized request is authorized, charged, appended
and awaited like any other. It saves a third of the broker's work for a produce of one record: 161
thousand instructions instead of 234 (`benchmarks/README.md`). The same bytes are another request on
another listener or from another principal. An entry also keeps the authorizer's last decision
(``Clearance``). Only the authorizer writes and reads it, and decides again once an ACL has changed.

Only requests of flexible versions, for one partition, with a response, without a transactional id
and without tags can be recognized. All others are decoded, as is every request the first time.

Invariants: no frame is held. The number of entries is bounded. When the bound is reached, all
entries are dropped, and requests that are still sent are cached again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class

from log_service.broker.handlers.produce.plain import PlainAppends, append_later
from log_service.broker.handlers.produce.produce import (
    ACKS_NONE,
    FIRST_VERSION_BY_ID,
    Terms,
    append_batch,
    respond,
    terms_of,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Nothing, Route
from log_service.common.access import Principal
from log_service.common.errors import ProtocolError
from log_service.network.server import Chunk, ConnectionContext
from log_service.protocol.api_versions import KNOWN, ApiKey
from log_service.protocol.frames import SIZE_BYTES, encode_response
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from log_service.protocol.reader import read_long_uvarint
from log_service.records.validator import NoRoomError, TurnRoom
from log_service.storage.append_result import AppendResult

MAX_KNOWN_COUNT = 4096
MAX_CLEARED_HOSTS = 64
"""The number of hosts that need no new decision, per listener, principal and request."""
MAX_KEY_BYTES = 512
"""The most bytes before the records that a key may have. Usual requests have 60."""

FIRST_VERSION = KNOWN[ApiKey.PRODUCE].first_flexible_version
"""The first version that can be recognized."""

_AFTER_CORRELATION = 8
_AFTER_HEAD = 10  # key, version, correlation id, size of the client id
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_ONE = 2  # the size of a compact list with one item
_ONE_BYTE_SIZES = 0x80
_NUMBERS = Struct(">qqq")  # base offset, append time, log start offset
# errors per record, error message, tags; tags of the topic; throttle time, tags of the response
_RESPONSE_TAIL_BYTES = 9

_TELLS_NO_PAUSE = ProduceResponse()
"""A response without a throttle time, as cached bytes contain it."""

_unpack_head = Struct(
    ">iih"
).unpack_from  # API key and version, correlation id, size of the client id


@dataclass(slots=True)
class Clearance:
    """The hosts from which a cached request may write, by the ACLs of ``version``.

    Later ACLs have another version, and the clearance is not valid for them.
    """

    version: object = None
    hosts: set[str] = field(default_factory=set)

    def add(self, version: object, host: str) -> None:
        """Note that the ACLs of a version allow the request from a host.

        Decisions by other versions are dropped.
        """
        if self.version is not version or len(self.hosts) >= MAX_CLEARED_HOSTS:
            self.version, self.hosts = version, set()
        self.hosts.add(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A cached request without its records, and the constant bytes of its response."""

    route: Route
    request: ProduceRequest
    topic: TopicProduceData
    index: int
    terms: Terms
    client_id: str | None
    pack: Callable[..., bytes]
    size: bytes
    before: bytes
    after: bytes
    clearance: Clearance = field(default_factory=Clearance)

    def encode(self, correlation_id: int, appended: AppendResult) -> bytes:
        """Return the response with the offsets of the records, as a frame."""
        base_offset, _, append_time_ms, log_start_offset, _, _ = appended
        return self.pack(
            self.size,
            correlation_id,
            self.before,
            base_offset,
            append_time_ms,
            log_start_offset,
            self.after,
        )


@dataclass(slots=True, eq=False)
class RepeatedCall(Call):
    """A recognized produce request. ``request`` is its decoded form without the records."""

    known: _Known
    records: memoryview


def handle_repeated_produce(
    node: Node, call: Call, request: ProduceRequest
) -> list[Chunk] | ProduceResponse | Deferred | Nothing:
    """Append the records of a recognized request.

    A response without errors is built from cached bytes.
    """
    assert isinstance(call, RepeatedCall)
    known = call.known
    if node.produce_queues.is_busy(call.connection):
        return _append_later(node, call)
    try:
        outcome = append_batch(
            node.appends,
            known.terms,
            known.topic,
            known.index,
            call.records,
            now_ms=node.clock.wall_ms(),
            room=TurnRoom(),
        )
    except NoRoomError:
        return _append_later(node, call)
    if isinstance(outcome, PartitionProduceResponse) or not outcome[0].state.is_safe_at_once:
        return respond(node, call, request, [(known.topic, [outcome])])
    # Charged once. A response that has to carry the pause is not counted again.
    if call.account is not None and call.account.charge(_TELLS_NO_PAUSE):
        return respond(node, call, request, [(known.topic, [outcome])])
    partition, _, appended = outcome
    if not appended.is_duplicate:
        count = appended.last_offset - appended.base_offset + 1
        node.produced.add(call.client_id, partition.topic_partition.topic, count)
    node.replicas.announce((partition,))
    return [known.encode(call.correlation_id, appended)]


def _append_later(node: Node, call: RepeatedCall) -> Deferred:
    """Append the batch when the queue of the connection reaches the request."""
    known = call.known
    topics = [
        replace(
            known.topic,
            partition_data=[PartitionProduceData(index=known.index, records=call.records)],
        )
    ]
    return append_later(
        node,
        call,
        replace(known.request, topic_data=topics),
        PlainAppends(node, known.terms, topics),
    )


class RepeatedProduces:
    """The cached requests of one pipeline."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, Principal], dict[bytes, _Known]] = {}

    def __repr__(self) -> str:
        return f"<RepeatedProduces known={len(self)}>"

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def recall(self, connection: ConnectionContext, frame: memoryview) -> RepeatedCall | None:
        """Return the call of a cached request, or None if the frame has to be decoded."""
        try:
            head, correlation_id, client_id_bytes = _unpack_head(frame)
            requests = self._known.get((head, connection.listener_name, connection.principal))
            if not requests:
                return None
            end, start, stop = _find_records(
                frame, client_id_bytes, is_by_id=head >= FIRST_VERSION_BY_ID
            )
            known = requests.get(bytes(frame[_AFTER_CORRELATION:end]))
            if known is None or stop < start or frame[stop:] != _NO_TAGS:
                return None
        except (IndexError, StructError, ProtocolError):
            return None  # decoding reports the error
        return RepeatedCall(
            known.route,
            head,
            correlation_id,
            known.client_id,
            connection,
            known.request,
            None,
            known,
            frame[start:stop],
        )

    def learn(self, call: Call, frame: memoryview) -> None:
        """Cache a request that was decoded from ``frame``, if it can be recognized."""
        if call.version < FIRST_VERSION:
            return
        request: ProduceRequest = call.request
        end = _end_of_key(call, request, frame)
        if not end:
            return
        key, listener = (
            bytes(frame[_AFTER_CORRELATION:end]),
            (
                call.version,
                call.connection.listener_name,
                call.connection.principal,
            ),
        )
        if key in self._known.get(listener, ()):
            return
        if len(self) >= MAX_KNOWN_COUNT:
            self._known.clear()
        self._known.setdefault(listener, {})[key] = compile_known(call, request)


def compile_known(call: Call, request: ProduceRequest) -> _Known:
    """Return the entry of the cache for this request and all requests that repeat it."""
    topic = request.topic_data[0]
    partition = replace(topic.partition_data[0], records=None)
    without_records = replace(topic, partition_data=[partition])
    partition_response = PartitionProduceResponse(
        index=partition.index, log_append_time_ms=0, log_start_offset=0
    )
    topics = [
        TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[partition_response]
        )
    ]
    whole = b"".join(
        map(
            bytes,  # type: ignore[arg-type]  # it holds no records
            encode_response(ApiKey.PRODUCE, call.version, 0, ProduceResponse(responses=topics)),
        )
    )
    before = whole[_AFTER_CORRELATION : -_RESPONSE_TAIL_BYTES - _NUMBERS.size]
    return _Known(
        route=replace(call.route, handle=handle_repeated_produce),
        request=replace(request, topic_data=[without_records]),
        topic=without_records,
        index=partition.index,
        terms=terms_of(request, call.version),
        client_id=call.client_id,
        pack=_response_struct(len(before)).pack,
        size=whole[:SIZE_BYTES],
        before=before,
        after=whole[-_RESPONSE_TAIL_BYTES:],
    )


def _end_of_key(call: Call, request: ProduceRequest, frame: memoryview) -> int:
    """Return the end of the bytes by which a request can be recognized, or 0 if it cannot."""
    topics = request.topic_data
    if (
        len(topics) != 1
        or len(topics[0].partition_data) != 1
        or request.acks == ACKS_NONE
        or call.client_id is None
    ):
        return 0
    records = topics[0].partition_data[0].records
    after_client_id = _AFTER_HEAD + len(call.client_id.encode())
    is_by_id = call.version >= FIRST_VERSION_BY_ID
    has_tags_or_transaction = frame[after_client_id] or frame[after_client_id + 1]
    if (
        records is None
        or has_tags_or_transaction
        or (not is_by_id and frame[after_client_id + 9] >= _ONE_BYTE_SIZES)
    ):
        return 0
    end, start, stop = _find_records(frame, after_client_id - _AFTER_HEAD, is_by_id=is_by_id)
    has_long_sizes = frame[after_client_id + 8] != _ONE or frame[end - 5] != _ONE
    if (
        has_long_sizes
        or stop - start != len(records)
        or frame[stop:] != _NO_TAGS
        or end - _AFTER_CORRELATION > MAX_KEY_BYTES
    ):
        return 0
    return end


def _find_records(
    frame: memoryview, client_id_bytes: int, *, is_by_id: bool
) -> tuple[int, int, int]:
    """Return the position of the records' length in a frame, and the start and end of the records.

    The values are meaningless if the frame is not of the expected form.
    """
    # The first topic follows the head, client id, tags, transactional id, acks, timeout and count.
    position = 19 + client_id_bytes
    position += 21 if is_by_id else frame[position] + 5  # id or name, count, index
    size, start = frame[position], position + 1
    if size > 0x7F:
        size, start = size + (frame[start] << 7) - 0x80, start + 1
        if size > 0x3FFF:
            size, start = read_long_uvarint(frame, position + 1, frame[position])
    return position, start, start + size - 1


@cache
def _response_struct(before_bytes: int) -> Struct:
    """Return the layout of a response.

    Its parts are size, correlation id, the bytes before the numbers, the numbers, and the bytes
    after them.
    """
    return Struct(f">4si{before_bytes}sqqq{_RESPONSE_TAIL_BYTES}s")
