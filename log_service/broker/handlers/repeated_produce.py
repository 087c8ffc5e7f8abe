"""Produce requests that were answered before, but for their records: answered without decoding and encoding them once more.

A producer sends the same request to a partition over and over. Two things differ from one to the next, the correlation id and the records,
and four in the answer: the correlation id and three numbers. So what comes before the records is looked up as it is, and names what the
ordinary way made of the same bytes: the partition, and the bytes of the answer around those numbers. It saves a third of what a small
request costs a broker in all.

Decides which requests are of that kind; what a batch, a producer and a log allow is decided where it always is. Knows how requests for one
partition are laid out from the first flexible version on. Everything unusual goes the ordinary way, before anything was done: other
versions, several partitions, transactions, acks=0, tags, a partition that is gone, led elsewhere, of a new topic id, or synced before it
answers.

Invariants: nothing is kept that may change, but looked up for each request. No frame is held. How many requests are known is bounded; where
there are more, all are forgotten and those that still come are learned anew.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, NamedTuple
from uuid import UUID

from log_service.broker.call import Call
from log_service.broker.handlers.produce import ACKS_NONE, FIRST_VERSION_BY_ID, refusal_of_one
from log_service.broker.node import Node
from log_service.common.errors import KafkaError, ProtocolError
from log_service.network.server import Chunk, ConnectionContext
from log_service.protocol.api_versions import KNOWN, ApiKey
from log_service.protocol.codec import encode
from log_service.protocol.frames import SIZE_BYTES, encode_response
from log_service.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from log_service.protocol.reader import NO_UUID, read_long_uvarint
from log_service.protocol.schema import Message

MAX_KNOWN_COUNT = 4096
MAX_KEY_BYTES = 512
"""Of what comes before the records; usual ones take 60."""
MAX_NAME_BYTES = 126
"""Of a topic's name whose length is one byte."""

_VERSIONS = range(KNOWN[ApiKey.PRODUCE].first_flexible_version, KNOWN[ApiKey.PRODUCE].max_version + 1)
_AFTER_CORRELATION = 8
_CLIENT_ID_SIZE = Struct(">h")
_NO_RECORDS = b"\1"
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_NUMBERS = Struct(">qqq")  # base offset, append time, log start offset
_ANSWER_TAIL_BYTES = 9  # errors per record, error message, tags; tags of the topic; throttle time, tags of the answer

_unpack_head = Struct(">iih").unpack_from  # API key and version, correlation id, size of the client id


class _Known(NamedTuple):
    """A request that was answered, without its records, and the bytes of its answer between which the numbers stand."""

    partition_key: tuple[str, int]
    topic_id: UUID
    acks: int
    pack: Callable[..., bytes]
    size: bytes
    before: bytes
    after: bytes

    def encode(self, correlation_id: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> bytes:
        """Return an answer as a frame."""
        return self.pack(self.size, correlation_id, self.before, base_offset, append_time_ms, log_start_offset, self.after)


class RepeatedProduces:
    """The requests that one dispatcher knows by heart."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._replicas = node.replicas
        self._partitions = node.replicas.partitions
        self._wall_ms = node.clock.wall_ms
        self._known: dict[int, dict[bytes, _Known]] = {int(ApiKey.PRODUCE) << 16 | version: {} for version in _VERSIONS}
        self._first_by_id = int(ApiKey.PRODUCE) << 16 | FIRST_VERSION_BY_ID

    def __repr__(self) -> str:
        return f"<RepeatedProduces known={len(self)}>"

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def answer(self, context: ConnectionContext, frame: memoryview) -> list[Chunk] | None:
        """Append the records of a known request and return its answer; None, and nothing was done, where the ordinary way is due."""
        try:
            head, correlation_id, client_id_size = _unpack_head(frame)
            requests = self._known.get(head)
            if not requests:
                return None
            end, start, stop = _find_records(frame, client_id_size, is_by_id=head >= self._first_by_id)
            known = requests.get(bytes(frame[_AFTER_CORRELATION:end]))
            if known is None or stop < start or frame[stop:] != _NO_TAGS:
                return None
        except (IndexError, StructError, ProtocolError):
            return None  # the ordinary way says what is wrong with it
        partition = self._partitions.get(known.partition_key)
        if partition is None or partition.topic_id is not known.topic_id or not partition.state.is_safe_at_once:
            return None
        try:
            result = self._replicas.append(partition, frame[start:stop], acks=known.acks, now_ms=self._wall_ms())
        except KafkaError as error:
            by_id = head >= self._first_by_id
            topic = TopicProduceData(
                name="" if by_id else known.partition_key[0],
                topic_id=known.topic_id if by_id else NO_UUID,
                partition_data=[PartitionProduceData(index=known.partition_key[1])],
            )
            version = head & 0xFFFF
            refusal = refusal_of_one(self._node, (version, context.listener_name), topic, partition, error)
            answer: list[Any] = encode_response(ApiKey.PRODUCE, version, correlation_id, refusal)
            return answer
        self._replicas.announce((partition,))
        return [known.encode(correlation_id, result.base_offset, result.append_time_ms, result.log_start_offset)]

    def learn(self, call: Call, response: Message, answer: list[Chunk]) -> None:
        """Know a request from now on that was answered at once and without an error, if it is of the kind."""
        request = call.request
        assert isinstance(response, ProduceResponse)
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1 or call.version not in _VERSIONS:
            return
        topic, told = request.topic_data[0], response.responses[0].partition_responses[0]
        if request.acks == ACKS_NONE or told.error_code or call.client_id is None or len(topic.name) > MAX_NAME_BYTES:
            return
        key = _key_of(call.client_id, request, call.version)
        if len(key) > MAX_KEY_BYTES:
            return
        if len(self) >= MAX_KNOWN_COUNT:
            for forgotten in self._known.values():
                forgotten.clear()
        partition = self._replicas.find(topic.name, topic.topic_id, told.index)
        name, index = partition.topic_partition
        whole = bytes(answer[0])  # type: ignore[arg-type]  # it has no records
        before, after = whole[_AFTER_CORRELATION : -_ANSWER_TAIL_BYTES - _NUMBERS.size], whole[-_ANSWER_TAIL_BYTES:]
        pack = _answer_struct(len(before)).pack
        known = _Known((name, index), partition.topic_id, request.acks, pack, whole[:SIZE_BYTES], before, after)
        assert known.encode(call.correlation_id, told.base_offset, told.log_append_time_ms, told.log_start_offset) == whole
        self._known[int(ApiKey.PRODUCE) << 16 | call.version][key] = known


def _key_of(client_id: str, request: ProduceRequest, version: int) -> bytes:
    """Return the bytes of a request for one partition between its correlation id and the length of its records."""
    topic = request.topic_data[0]
    empty = PartitionProduceData(index=topic.partition_data[0].index, records=b"")
    body = encode(replace(request, topic_data=[replace(topic, partition_data=[empty])]), version)
    text = client_id.encode()
    return _CLIENT_ID_SIZE.pack(len(text)) + text + b"\0" + body[: -len(_NO_RECORDS + _NO_TAGS)]


def _find_records(frame: memoryview, client_id_size: int, *, is_by_id: bool) -> tuple[int, int, int]:
    """Return where in a frame the length of the records stands, where they begin and where they end, if it is one of the kind."""
    position = 19 + client_id_size  # of the topic: head, client id, tags, transactional id, acks, timeout, count
    position += 21 if is_by_id else frame[position] + 5  # id or name, count, index
    size, start = frame[position], position + 1
    if size > 0x7F:
        size, start = size + (frame[start] << 7) - 0x80, start + 1
        if size > 0x3FFF:
            size, start = read_long_uvarint(frame, position + 1, frame[position])
    return position, start, start + size - 1


@cache
def _answer_struct(before_bytes: int) -> Struct:
    """Return the layout of an answer: its size, correlation id, what stands before the numbers, the numbers, what stands after them."""
    return Struct(f">4si{before_bytes}sqqq{_ANSWER_TAIL_BYTES}s")
