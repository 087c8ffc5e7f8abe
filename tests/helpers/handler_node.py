"""A ``Node`` for tests of handlers: real partitions, logs and image, no start, no sockets.

The logs lie on a memory disk. Metadata records make the image, as ``ReplicaContext`` publishes
them. The controller is a fake that gives the test's responses. There is no metadata quorum, and the
node leads no groups. Requests go through the real pipeline, as frames.

def test_something() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        response = await node.ask(MetadataRequest(topics=None), 12)

    tell_handlers(story)
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any, cast

import trio

from log_service.broker.client_telemetry import ClientTelemetry
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.lost_brokers import LostBrokers
from log_service.broker.node import Node
from log_service.broker.producer_ids import ProducerIds
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.broker.requests.pipeline import Pipeline, new_meters
from log_service.broker.share.group_settings import ShareGroupSettings
from log_service.broker.share.shares import Shares
from log_service.broker.share.start_offsets import StartOffsets
from log_service.broker.topic_creation.automatic import TopicCreation
from log_service.broker.topic_creation.declared import Declared, declared_topics
from log_service.broker.topic_creation.streams import StreamsTopicCreation
from log_service.broker.transactions.verifier import TransactionVerifier
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, BrokerEpoch, NodeId, TopicId
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.share_state_service import ShareStateService
from log_service.coordinator.transaction_service import TransactionService
from log_service.metadata.image import MetadataImage
from log_service.network.server import ConnectionContext, PendingResponse, PutOff, Response
from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.stored.metadata_records import BrokerEndpoint
from tests.helpers.share_states import MemoryDeadLetters, MemoryPersister
from tests.unit.broker.context import HOST, PORT, Asking
from tests.unit.metadata.records import broker
from tests.unit.replication.context import ReplicaContext, run_story, running

LISTENER = "PLAINTEXT"


class FakeController:
    """Gives the test's ``responses``, by the type of the response, and else NOT_CONTROLLER."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.responses: dict[type[Any], Any] = {}

    def spoken_versions(self) -> None:
        return None

    async def request(self, message: Any, response_type: type[Any], caller: Any = None) -> Any:
        await trio.lowlevel.checkpoint()
        self.requests.append(message)
        response = self.responses.get(
            response_type, KafkaError(ErrorCode.NOT_CONTROLLER, "nobody leads")
        )
        if isinstance(response, Exception):
            raise response
        return response


class HandlerNode(Asking):
    """The node, and one connection to it.

    ``replicas``, ``image`` and ``publish`` are those of the partitions' own context.
    """

    def __init__(self, context: ReplicaContext, properties: dict[str, str]) -> None:
        config, settings = parse_server_properties(
            {
                "node.id": "1",
                "listeners": f"{LISTENER}://{HOST}:{PORT}",
                "log.dirs": "/data/kafka",
                **properties,
            }
        )
        nothing = cast("Any", None)
        self.context = context
        self.controller = FakeController()
        self.share_states = MemoryPersister()
        self.dead_letters = MemoryDeadLetters()
        controller = cast("Any", self.controller)
        self.node = Node(
            config=config,
            static_texts=settings.texts,
            cluster_id="cluster-of-the-story-00",
            clock=context.env.clock,
            rng=Random(7),
            image=lambda: context.image,
            run_in_pool=context.env.files.run_in_pool,
            raft=nothing,
            logs=context.logs,
            replicas=context.replicas,
            groups=self._new_groups(config),
            transactions=_new_transactions(context, config),
            share_states=ShareStateService(
                clock=context.env.clock,
                timers=context.timers,
                run_in_pool=context.env.files.run_in_pool,
                is_there=lambda _topic_id, _partition: True,
            ),
            share_persister=self.share_states,
            end_offsets=nothing,
            controller=controller,
            fetch_sessions=FetchSessionCache(config.fetch, Random(7)),
            shares=self._new_shares(config),
            producer_ids=ProducerIds(controller, NodeId(1), lambda: BrokerEpoch(10)),
            transaction_verifier=TransactionVerifier(
                node_id=NodeId(1),
                listener_name=LISTENER,
                config=config.verification,
                clock=context.env.clock,
                replicas=context.replicas,
                image=lambda: context.image,
                pool=nothing,
                start_task=context.nursery.start_soon,
            ),
            topic_creation=TopicCreation(
                controller,
                config,
                context.env.clock,
                lambda: context.image,
                _declared(context, config),
            ),
            streams_topics=StreamsTopicCreation(
                controller, context.env.clock, context.nursery.start_soon
            ),
            telemetry=_new_telemetry(context),
            lost_brokers=_new_lost_brokers(context),
        )
        self.pipeline = Pipeline(
            self.node, Side.BROKER, context.nursery.start_soon, REGISTRY, new_meters(REGISTRY, 0)
        )
        self.connection = ConnectionContext(1, "client", HOST, LISTENER)
        self.publish = context.publish
        self.replicas = context.replicas

    def _new_groups(self, config: NodeConfig) -> GroupService:
        context = self.context
        return GroupService(
            clock=context.env.clock,
            rng=Random(7),
            config=config.groups,
            timers=context.timers,
            run_in_pool=context.env.files.run_in_pool,
            partition_count=self._group_partition_count,
        )

    def _new_shares(self, config: NodeConfig) -> Shares:
        context = self.context
        starts = StartOffsets(
            context.env.clock, context.env.files.run_in_pool, context.nursery.start_soon
        )
        shares = Shares(
            clock=context.env.clock,
            timers=context.timers,
            persister=self.share_states,
            settings=ShareGroupSettings(config.share_fetch, lambda: context.image).of,
            find_start=starts.find,
            dead_letters=self.dead_letters,
            max_session_count=config.share_fetch.max_session_count,
        )
        context.replicas.add_listener(shares)
        return shares

    def _group_partition_count(self) -> int:
        topic = self.image.topics.by_name.get(GROUP_METADATA_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    @property
    def image(self) -> MetadataImage:
        return self.context.image

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> TopicId:
        self.context.create_topic(name, partitions=partitions, **cast("Any", configs))
        return self.image.topics.by_name[name].topic_id

    def send(
        self, request: Any, version: int, connection: ConnectionContext | None = None
    ) -> Response:
        """Hand a request to the pipeline and return the pipeline's result.

        A request with a delayed response keeps nothing of its frame, because the next request is
        read over it as on a connection.
        """
        key = ApiKey(request.SCHEMA.key)
        encoded = b"".join(
            map(bytes, encode_request(RequestHeader(key, version, 1, "story"), request))  # type: ignore[arg-type]  # no slice
        )
        frame = bytearray(encoded[4:])
        answer = self.pipeline.handle_frame(connection or self.connection, memoryview(frame))
        if not isinstance(answer, PendingResponse) or not answer.holds_frame:
            frame[:] = bytes(len(frame))
        return answer

    async def ask(
        self, request: Any, version: int, connection: ConnectionContext | None = None
    ) -> Any:
        """Send a request and return its response, or None where there is none."""
        key, answer = ApiKey(request.SCHEMA.key), self.send(request, version, connection)
        if isinstance(answer, PendingResponse):
            done = trio.Event()
            answer.watch(lambda _: done.set())
            if not answer.is_done:
                await done.wait()
            answer = answer.take()
        assert not isinstance(answer, PutOff)
        if not answer:
            return None
        content = b"".join(
            chunk if isinstance(chunk, bytes | bytearray | memoryview) else _read(chunk)
            for chunk in answer
        )[4:]
        _, body = parse_response_header(key, version, content)
        return decode(response_class(key), version, content, body)[0]


def _read(file_slice: Any) -> bytes:
    content = bytes(file_slice.read())
    file_slice.release()
    return content


def tell_handlers(story: Callable[[HandlerNode], Awaitable[None]], **properties: str) -> None:
    """Run one story against a node that consists of the parts that handlers see.

    Property names are given with underscores.
    """

    async def main() -> None:
        async with running() as context:
            endpoint = BrokerEndpoint(name=LISTENER, host=HOST, port=PORT)
            context.publish(replace(broker(), end_points=[endpoint]))
            await story(
                HandlerNode(
                    context, {name.replace("_", "."): value for name, value in properties.items()}
                )
            )

    run_story(main)


def _new_lost_brokers(context: ReplicaContext) -> LostBrokers:
    start = context.nursery.start_soon
    return LostBrokers(
        context.env,
        context.timers,
        image=lambda: context.image,
        listener_name=LISTENER,
        grace_ms=200,
        start_task=start,
    )


def _declared(context: ReplicaContext, config: NodeConfig) -> Declared:
    return declared_topics(context.env.files, config.topics.declarations_path)


def _new_transactions(context: ReplicaContext, config: NodeConfig) -> TransactionService:
    return TransactionService(
        clock=context.env.clock,
        config=config.transactions,
        timers=context.timers,
        run_in_pool=context.env.files.run_in_pool,
        next_producer_id=lambda: None,
        server_version=lambda: 0,
        on_due=lambda _owner, _due: None,
        on_dropped=lambda _partition: None,
    )


def _new_telemetry(context: ReplicaContext) -> ClientTelemetry:
    env = context.env
    return ClientTelemetry(
        clock=env.clock,
        rng=Random(7),
        run_in_pool=env.files.run_in_pool,
        max_bytes=1 << 20,
        is_shown=False,
    )
