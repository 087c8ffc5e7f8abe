"""A broker does as a test tells it, over the memory network, with our codec and one log per
partition.

It has no logins. It knows ApiVersions, Metadata, InitProducerId, Produce and ListOffsets, and
keeps the sequences of idempotent producers as a broker does. A test may respond to a produce with
an error (before or after the append), hold responses back, or drop the connection. ``clustered``
makes several into one cluster: they have the same logs, and each takes produces only for what it
leads.
"""

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import trio

from log_service.broker.registry import REGISTRY
from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey, request_class, spec_of
from log_service.protocol.codec import decode
from log_service.protocol.frames import encode_response, parse_request_header
from log_service.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from log_service.protocol.messages.init_producer_id import InitProducerIdResponse
from log_service.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from log_service.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeResponse
from log_service.records.batch import BatchHeader, iterate_records, parse_header
from tests.sim.world import World

TOPIC_ID = UUID(int=77)
HOST, PORT = "broker", 9092
REMEMBERED_BATCHES = 5
"""How many batches of a producer a broker tells from new ones."""


@dataclass
class Written:
    """The log of one partition holds values in order, and the batches' headers."""

    values: list[bytes] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)
    next_sequence: dict[tuple[int, int], int] = field(default_factory=dict)
    offsets: dict[tuple[int, int, int], int] = field(default_factory=dict)


class ScriptedBroker:
    """``script`` holds the fates of the next produce requests.

    Each is an error code instead of the append, or one of the words below.
    """

    APPEND = "append"
    APPEND_AND_DROP = "append, then drop the connection"
    DROP = "drop the connection"
    IGNORE = "never respond"

    def __init__(
        self,
        world: World,
        *,
        partition_count: int = 1,
        max_batch_bytes: int = 1 << 20,
        features: tuple[str, ...] = (),
        node_id: int = 1,
        host: str = HOST,
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.host = host
        self.network = world.network.host(host)
        self.brokers = [self]
        self.topics = {"t"}
        self.refused_topics: dict[str, ErrorCode] = {}
        self.leader_epochs = [0] * partition_count
        self.is_leader_told = True
        self.rack: str | None = None
        self.down_s = 0.0
        self.partition_count = partition_count
        self.max_batch_bytes = max_batch_bytes
        self.features = features
        self.script: deque[ErrorCode | str] = deque()
        self.logs = [Written() for _ in range(partition_count)]
        self.requests: list[tuple[ApiKey, Any]] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self.producer_id = 100
        self.leaders = [1] * partition_count
        self.max_versions: dict[ApiKey, int] = {}
        self.levels: dict[str, int] = {}
        self.delay_s = 0.0
        self.refused_api_versions: set[int] = set()
        self.topic_id = self.old_topic_id = TOPIC_ID
        self.is_id_old_in_responses = False
        # Asked before an append.
        self.admit: Callable[[BatchHeader], ErrorCode] = lambda _: ErrorCode.NONE
        self.other: dict[ApiKey, Callable[[Any, int], Awaitable[Any]]] = {}

    def recreate(self, *, is_emptied: bool = True) -> None:
        """Delete the topic and make it anew, under another id."""
        self.old_topic_id, self.topic_id = self.topic_id, UUID(int=self.topic_id.int + 1)
        if is_emptied:
            self.logs = [Written() for _ in range(self.partition_count)]

    def forget_producers(self) -> None:
        """Lose the logs' state of producers, as a loss of power does, or a log that is cut.

        The records stay.
        """
        for log in self.logs:
            log.next_sequence.clear()
            log.offsets.clear()

    def grow(self, partition_count: int) -> None:
        """Add partitions."""
        self.logs += [Written() for _ in range(partition_count - self.partition_count)]
        self.leaders += [1] * (partition_count - self.partition_count)
        self.leader_epochs += [0] * (partition_count - self.partition_count)
        self.partition_count = partition_count

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                listener = await self.network.listen(self.host, PORT)
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                with contextlib.suppress(OSError):
                    while True:
                        nursery.start_soon(self.serve_connection, await listener.accept(), nursery)
                await trio.sleep(self.down_s)

    def go_down(self, seconds: float) -> None:
        """Break every connection and refuse new ones for so long."""
        self.down_s = seconds
        self.world.network.crash_host(self.host)

    def count(self, key: ApiKey) -> int:
        return sum(1 for each, _ in self.requests if each is key)

    async def serve_connection(self, connection: Any, nursery: trio.Nursery) -> None:
        frames_in, frames_out = trio.open_memory_channel[bytes](1_000)
        nursery.start_soon(self._respond, connection, frames_out)
        buffered, part = bytearray(), bytearray(1 << 16)
        with frames_in:
            try:
                while received := await connection.receive_into(part):
                    buffered += part[:received]
                    while len(buffered) >= 4 and len(buffered) >= 4 + int.from_bytes(
                        buffered[:4], "big"
                    ):
                        size = int.from_bytes(buffered[:4], "big")
                        frames_in.send_nowait(bytes(buffered[4 : 4 + size]))
                        del buffered[: 4 + size]
                        self.in_flight += 1
                        self.max_in_flight = max(self.max_in_flight, self.in_flight)
            except OSError:
                return

    async def _respond(self, connection: Any, frames: trio.MemoryReceiveChannel[bytes]) -> None:
        try:
            async for frame in frames:
                await self._handle(connection, frame)
                self.in_flight -= 1
        except OSError:
            self.in_flight = 0
        finally:
            connection.close()

    async def _handle(self, connection: Any, frame: bytes) -> None:
        header, position = parse_request_header(frame)
        request, _ = decode(request_class(header.api_key), header.api_version, frame, position)
        self.requests.append((header.api_key, request))
        if (
            header.api_key is ApiKey.API_VERSIONS
            and header.api_version in self.refused_api_versions
        ):
            response: Any = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            await connection.send_gathered(
                encode_response(header.api_key, 0, header.correlation_id, response)
            )
            return
        handlers: dict[ApiKey, Callable[[Any], Awaitable[Any]]] = {
            ApiKey.API_VERSIONS: self.respond_to_api_versions,
            ApiKey.METADATA: self.respond_to_metadata,
            ApiKey.INIT_PRODUCER_ID: self.respond_to_init_producer_id,
            ApiKey.PRODUCE: self.respond_to_produce,
            ApiKey.SASL_HANDSHAKE: self._sasl_handshake,
        }
        if header.api_key in self.other:
            response = await self.other[header.api_key](request, header.api_version)
        else:
            response = await handlers[header.api_key](request)
        if isinstance(response, OSError):
            raise response
        if response is not None:
            await connection.send_gathered(
                encode_response(header.api_key, header.api_version, header.correlation_id, response)
            )

    async def respond_to_api_versions(self, request: Any) -> ApiVersionsResponse:
        keys = [
            ApiVersion(
                api_key=spec.key,
                min_version=spec.min_version,
                max_version=self.max_versions.get(spec.key, spec.max_version),
            )
            for spec in map(spec_of, dict.fromkeys([*REGISTRY, *self.other]))
            if spec.advertised_min_version is not None
        ]
        supported = [
            SupportedFeatureKey(name=name, min_version=1, max_version=1) for name in self.features
        ]
        finalized = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in self.levels.items()
        ]
        return ApiVersionsResponse(
            api_keys=keys,
            supported_features=supported,
            finalized_features=finalized,
            finalized_features_epoch=1 if finalized else -1,
        )

    async def _sasl_handshake(self, request: Any) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    async def respond_to_metadata(self, request: Any) -> MetadataResponse:
        names = (
            sorted(self.topics)
            if request.topics is None
            else [topic.name for topic in request.topics]
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(
                    node_id=each.node_id, host=each.host, port=PORT, rack=each.rack
                )
                for each in self.brokers
            ],
            cluster_id="scripted",
            controller_id=1,
            topics=[self._metadata_topic(name) for name in names],
        )

    def _metadata_topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(
                name=name,
                error_code=self.refused_topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            )
        partitions = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=self.leader_epochs[index],
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for index, leader in enumerate(self.leaders)
        ]
        return MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=partitions)

    async def respond_to_init_producer_id(self, request: Any) -> InitProducerIdResponse:
        self.producer_id += 1
        return InitProducerIdResponse(producer_id=self.producer_id, producer_epoch=0)

    async def respond_to_produce(self, request: Any) -> Any:
        if self.delay_s:
            await trio.sleep(self.delay_s)
        action = self.script.popleft() if self.script else self.APPEND
        if action == self.DROP:
            return ConnectionResetError("scripted")
        responses = [
            self._produce_one(
                partition.index,
                partition.records,
                self._admitted(partition.records, self._action(topic.topic_id, action)),
            )
            for topic in request.topic_data
            for partition in topic.partition_data
        ]
        if action == self.APPEND_AND_DROP:
            return ConnectionResetError("scripted")
        if request.acks == 0:
            return None
        if action == self.IGNORE:
            # Nor to what comes behind it on the connection: responses come in order.
            await trio.sleep_forever()
        topic_id = (
            self.old_topic_id if self.is_id_old_in_responses else request.topic_data[0].topic_id
        )
        topics = [TopicProduceResponse(name="t", topic_id=topic_id, partition_responses=responses)]
        return ProduceResponse(responses=topics, node_endpoints=self._endpoints(responses))

    def _endpoints(self, responses: list[PartitionProduceResponse]) -> list[NodeEndpoint]:
        named = {
            each.current_leader.leader_id for each in responses if each.current_leader is not None
        }
        return [
            NodeEndpoint(node_id=each.node_id, host=each.host, port=PORT, rack=each.rack)
            for each in self.brokers
            if each.node_id in named
        ]

    def _action(self, topic_id: UUID, action: ErrorCode | str) -> ErrorCode | str:
        is_known = topic_id in {self.topic_id, UUID(int=0)} or self.is_id_old_in_responses
        return action if is_known else ErrorCode.UNKNOWN_TOPIC_ID

    def _admitted(self, records: memoryview, action: ErrorCode | str) -> ErrorCode | str:
        return (
            action if isinstance(action, ErrorCode) else self.admit(parse_header(records)) or action
        )

    def _produce_one(
        self, index: int, records: memoryview, action: ErrorCode | str
    ) -> PartitionProduceResponse:
        if isinstance(action, ErrorCode):
            return PartitionProduceResponse(index=index, error_code=action)
        if len(self.brokers) > 1 and self.leaders[index] != self.node_id:
            leader = (
                LeaderIdAndEpoch(
                    leader_id=self.leaders[index], leader_epoch=self.leader_epochs[index]
                )
                if self.is_leader_told
                else None
            )
            return PartitionProduceResponse(
                index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader
            )
        if len(records) > self.max_batch_bytes:
            return PartitionProduceResponse(index=index, error_code=ErrorCode.MESSAGE_TOO_LARGE)
        log, header = self.logs[index], parse_header(records)
        producer = (header.producer_id, header.producer_epoch)
        known = log.offsets.get((*producer, header.base_sequence))
        if header.has_producer_id and known is not None:
            return PartitionProduceResponse(index=index, base_offset=known)
        is_known = any(producer_id == header.producer_id for producer_id, _ in log.next_sequence)
        # Who is not known may begin anywhere.
        due = log.next_sequence.get(producer, 0 if is_known else header.base_sequence)
        if header.has_producer_id and header.base_sequence != due:
            return PartitionProduceResponse(
                index=index, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            )
        base_offset = len(log.values)
        log.values += [record.value or b"" for record in iterate_records(records)]
        log.headers.append(header)
        log.next_sequence[producer] = header.base_sequence + header.record_count
        log.offsets[*producer, header.base_sequence] = base_offset
        if len(log.offsets) > REMEMBERED_BATCHES:
            del log.offsets[next(iter(log.offsets))]
        return PartitionProduceResponse(index=index, base_offset=base_offset)


def clustered(*brokers: ScriptedBroker) -> None:
    """Make brokers into one cluster: they share logs, leaders and what is known of producers."""
    first = brokers[0]
    for each in brokers:
        each.brokers, each.logs = list(brokers), first.logs
        each.leaders, each.leader_epochs = first.leaders, first.leader_epochs


def elect(brokers: list[ScriptedBroker], leader: int, partition: int = 0) -> None:
    """Have another broker lead a partition, in a new epoch; all brokers know."""
    first = brokers[0]
    first.leaders[partition] = leader
    first.leader_epochs[partition] += 1
