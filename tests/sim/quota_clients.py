"""Clients of a simulated cluster that want more than their quota, and what they were told.

``user`` has several clients that share its quota, ``alone`` is one client with a quota of its own.
Half of them write, half read; half are patient, and pause for as long as a response tells them,
while the others ask again at once, so that only the broker holds them back. All of them work at one
leader, since each broker counts for itself. Clients know neither faults nor rules. ``Metered`` is
for ``quota_checker`` to judge.
"""

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import trio

from log_service.broker.handlers.fetch.response import HEAD_BYTES, PARTITION_BYTES, TOPIC_BYTES
from log_service.client import Admin, NewTopic
from log_service.client.admin.values import QuotaEntity
from log_service.common.env import Connection
from log_service.common.errors import ErrorCode
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.protocol.schema import Message
from log_service.records.builder import build_batch
from tests.sim.cluster_clients import ClusterClients
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.node_history import History, Operation
from tests.sim.node_host import NodeHost
from tests.sim.node_waits import FETCH, LONGEST_WAIT_MS, PAUSE_SECONDS, PRODUCE, Line, RefusedError

TOPIC = TopicPartition("metered", 0)
USER = "ANONYMOUS"
LIBRARY_ID = "tidelog"
"""The client id of all other clients of a run: they have a quota of their own, which holds nothing
back.
"""
VALUE_BYTES = 150
BOUNDS: Mapping[str, float] = {"user": 6_000.0, "alone": 3_000.0}
"""Bytes per second, written and read each, of those who share a quota."""
NO_BOUND = 1e12
REST_SECONDS = 0.02
"""On average for how long a client works on a response, patient or not, so that what a window has
left goes to all that want it.
"""


class Use(Enum):
    """The rates and shares that a quota bounds."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"


@dataclass(slots=True, kw_only=True)
class Metered(Operation):
    """A request of a client with a quota, on its connection number ``line``; ended with its
    response.

    ``size_bytes`` is what counts of it: the request to write, the response to a read, about as
    large as the broker takes it for. ``is_served`` says that it was given what it asked for,
    ``pause_ms`` what it was told to pause.
    """

    client: str
    quota: str
    use: Use
    is_patient: bool
    line: int
    size_bytes: int = 0
    is_served: bool = False
    pause_ms: int = 0


class MeteredLine(Line):
    """A connection whose client has a name, and which knows how large requests are."""

    def __init__(self, connection: Connection, client_id: str) -> None:
        super().__init__(connection)
        self._client_id = client_id

    async def ask_sized(self, request: Message, version: int) -> tuple[Any, int]:
        """Return the response, and how many bytes the request has. Raises OSError where the
        connection breaks.
        """
        api_key = ApiKey(request.SCHEMA.key or 0)
        asked = b"".join(
            encode_request(RequestHeader(api_key, version, 1, self._client_id), request)  # type: ignore[arg-type]
        )
        await self._connection.send_gathered([asked])
        (size,) = struct.unpack(">i", await self._receive(4))
        frame = await self._receive(size)
        _, body = parse_response_header(api_key, version, frame)
        return decode(response_class(api_key), version, frame, body)[0], len(asked)


class QuotaClients:
    """The clients with quotas of one run."""

    def __init__(
        self, clients: ClusterClients, plan: ClusterPlan, hosts: tuple[NodeHost, ...]
    ) -> None:
        self._clients = clients
        self.plan = plan
        self.history: History = clients.history
        self._hosts = hosts
        self._lines = 0

    async def set_quotas(self) -> None:
        """Create what is written and read, and say how fast."""
        async with self._admin() as admin:
            await admin.create_topics(
                [NewTopic(name=TOPIC.topic, partition_count=1, replication_factor=3)]
            )
            bounds = {
                QuotaEntity(user=USER): BOUNDS["user"],
                QuotaEntity(user=USER, client_id="alone"): BOUNDS["alone"],
                QuotaEntity(user=USER, client_id=LIBRARY_ID): NO_BOUND,
            }
            await admin.alter_client_quotas(
                {entity: {use.value: bound for use in Use} for entity, bound in bounds.items()}
            )

    def _admin(self) -> Admin:
        env = self._clients.env("quota-admin")
        return Admin(self._clients.bootstrap, env=env, **self._clients.settings(env))

    def begin(self, begin: Callable[[Callable[[str], Any], str], None]) -> None:
        """Cast the clients: of ``user`` as many as planned for each use, and the one that is alone."""
        for use in Use:
            for number in range(self.plan.metered_count):
                begin(
                    self._worker("user", use, is_patient=number % 2 == 0),
                    f"metered-{use.name.lower()}-{number}",
                )
            begin(self._worker("alone", use, is_patient=False), f"alone-{use.name.lower()}")

    def _worker(self, quota: str, use: Use, *, is_patient: bool) -> Callable[[str], Any]:
        async def work(name: str) -> None:
            await self._work(name, quota, use, is_patient=is_patient)

        return work

    async def _work(self, name: str, quota: str, use: Use, *, is_patient: bool) -> None:
        """Ask again and again until all is over; connect again where a connection breaks."""
        machine = self._clients.machine_of(name)
        self._clients.world.network.quiet_hosts.add(machine)
        env = self._clients.env(name)
        while not self._clients.is_over:
            host = self._leader()
            if host is None:
                await trio.sleep(PAUSE_SECONDS)
                continue
            with suppress(OSError):
                line = MeteredLine(
                    await env.network.connect(host.name, host.port),
                    "alone" if quota == "alone" else machine,
                )
                self._lines += 1
                number = self._lines
                try:
                    while not self._clients.is_over:
                        asked = Metered(
                            client=machine, quota=quota, use=use, is_patient=is_patient, line=number
                        )
                        self.history.add(asked)
                        await self._ask(line, asked)
                        rest_seconds = env.rng.uniform(0, 2 * REST_SECONDS)
                        await trio.sleep(
                            max(rest_seconds, asked.pause_ms / 1_000)
                            if is_patient
                            else rest_seconds
                        )
                finally:
                    line.close()
            await trio.sleep(0.05)

    async def _ask(self, line: MeteredLine, asked: Metered) -> None:
        request, version = (
            (_produce(self._clients.world.clocks[asked.client].wall_ms()), PRODUCE)
            if asked.use is Use.PRODUCE
            else (_fetch(), FETCH)
        )
        response, request_bytes = await line.ask_sized(request, version)
        if asked.use is Use.PRODUCE:
            code = response.responses[0].partition_responses[0].error_code
            asked.is_served, asked.size_bytes = not code, request_bytes
        else:
            parts = [part for topic in response.responses for part in topic.partitions]
            code = response.error_code or next(
                (part.error_code for part in parts if part.error_code), 0
            )
            record_bytes = sum(len(part.records or b"") for part in parts)
            asked.is_served = record_bytes > 0
            asked.size_bytes = HEAD_BYTES + TOPIC_BYTES + PARTITION_BYTES + record_bytes
        asked.pause_ms = response.throttle_time_ms
        self.history.end(asked, ErrorCode(code) if code else None)
        if code:
            raise RefusedError

    def _leader(self) -> NodeHost | None:
        for host in self._hosts:
            rooms = (
                host.current.broker.open_rooms
                if host.is_running and host.current is not None
                else None
            )
            found = None if rooms is None else rooms.replicas.partitions.get(TOPIC)
            if found is not None and found.state.is_leader:
                return host
        return None


def _produce(now_ms: int) -> ProduceRequest:
    records = bytes(build_batch([(now_ms, None, bytes(VALUE_BYTES))]))
    topic = TopicProduceData(
        name=TOPIC.topic,
        topic_id=NO_TOPIC_ID,
        partition_data=[PartitionProduceData(index=TOPIC.partition, records=records)],
    )
    return ProduceRequest(acks=1, timeout_ms=LONGEST_WAIT_MS, topic_data=[topic])


def _fetch() -> FetchRequest:
    """Ask for the first record again and again."""
    wanted = FetchPartition(partition=TOPIC.partition, fetch_offset=0, partition_max_bytes=1)
    topic = FetchTopic(topic=TOPIC.topic, topic_id=NO_TOPIC_ID, partitions=[wanted])
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        session_id=0,
        session_epoch=-1,
        topics=[topic],
    )
