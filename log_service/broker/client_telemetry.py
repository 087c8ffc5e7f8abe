"""Metrics that clients push to this broker (KIP-714).

The subscriptions of the newest metadata decide the response. Pushed metrics are parsed in the pool,
because a client chooses their size. They appear on the metrics page from then on. A broker without
a metrics page has no use for them. It does not advertise these APIs, so that clients push nothing.
If a client sends such a request anyway, it gets an ordinary response.
"""

from random import Random
from uuid import UUID

from log_service.common.env import Clock, RunInPool
from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.network.server import ConnectionContext
from log_service.raft.format import random_id
from log_service.storage.partition_metadata import format_uuid
from log_service.telemetry.instances import RESERVED, Instance, Instances, Push
from log_service.telemetry.otlp import Pushed, read_push
from log_service.telemetry.series import PushedSeries
from log_service.telemetry.subscriptions import (
    ClientAttributes,
    Resource,
    Subscription,
    resource,
    subscription_of,
)


class ClientTelemetry:
    """Holds the subscriptions, the clients and the metrics that they pushed.

    It gets each new metadata image by ``on_image``. ``is_shown`` is true if there is a metrics
    page.
    """

    def __init__(
        self, *, clock: Clock, rng: Random, run_in_pool: RunInPool, max_bytes: int, is_shown: bool
    ) -> None:
        self.series = PushedSeries()
        self.instances = Instances()
        self.max_bytes = max_bytes
        self.is_shown = is_shown
        self.clock = clock
        self._rng = rng
        self._run_in_pool = run_in_pool
        self._resources: dict[str, Resource] = {}
        self._version = 0

    def __repr__(self) -> str:
        return (
            f"<ClientTelemetry resources={len(self._resources)} {self.instances!r} {self.series!r}>"
        )

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Use the subscriptions of this image from now on."""
        changed = [
            name for kind, name in delta.changed_configs if kind == ResourceType.CLIENT_METRICS
        ]
        for name in changed:
            configs = image.configs.of(ResourceType.CLIENT_METRICS, name)
            found = resource(name, configs) if configs else None
            if found is None:
                self._resources.pop(name, None)
            else:
                self._resources[name] = found
        self._version += bool(changed)

    def ask(
        self, instance_id: UUID, client_id: str, connection: ConnectionContext
    ) -> tuple[UUID, Subscription]:
        """Return a client's subscription and instance id. A client without an id gets a new one.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED, the client asks too early.
        """
        now_ms = self.clock.monotonic_ms()
        if not instance_id.int:
            instance_id = random_id(self._rng.getrandbits)
        instance = self._find(instance_id, client_id, connection, now_ms)
        instance.begin_get(now_ms)
        return instance_id, instance.subscription

    async def push(
        self,
        instance_id: UUID,
        client_id: str,
        connection: ConnectionContext,
        push: Push,
        metrics: bytes,
    ) -> None:
        """Store a client's pushed metrics.

        Raises:
            KafkaError: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
                UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD.
        """
        if instance_id in RESERVED:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a client that pushes has an instance id of its own"
            )
        now_ms = self.clock.monotonic_ms()
        instance = self._find(instance_id, client_id, connection, now_ms)
        instance.begin_push(push, self.max_bytes, now_ms)

        def read() -> Pushed:
            return read_push(push.codec, metrics, self.max_bytes)

        pushed = await self._run_in_pool(read)
        self.series.take(
            instance_id, client_id, pushed, self.clock.monotonic_ms(), instance.memory_ms
        )

    def _find(
        self, instance_id: UUID, client_id: str, connection: ConnectionContext, now_ms: int
    ) -> Instance:
        def subscribe() -> Subscription:
            name, version = connection.client_software or ("", "")
            attributes = ClientAttributes(
                client_instance_id=format_uuid(instance_id),
                client_id=client_id,
                client_software_name=name,
                client_software_version=version,
                client_source_address=connection.peer_host,
                client_source_port=str(connection.peer_port),
            )
            return subscription_of(instance_id, attributes, self._resources.values())

        connection_id = connection.connection_id
        connection.on_closed["telemetry"] = lambda: self.instances.forget(
            instance_id, connection_id
        )
        return self.instances.find(instance_id, self._version, connection_id, subscribe, now_ms)
