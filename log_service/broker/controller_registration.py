"""The registration of this node's controller in the metadata (KIP-919).

A registration has the controller's listeners and feature levels. Decides when it is sent to the
active controller. Each process of a controller registers once, under its own incarnation id. It
registers again only if the metadata has another incarnation, or none. Without the registration the
active controller would raise feature levels that this controller does not support. Admin clients of
the controllers would not find it either. A node that begins a cluster alone has no other node to
notify.

Invariant: one request is in flight at a time. A failed request is sent again after a pause, to the
controller that is active by then.
"""

import logging
from collections.abc import Mapping
from random import Random
from uuid import UUID

import trio

from log_service.common.errors import KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.types import NodeId
from log_service.controller.channel import ControllerChannel
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import Endpoint, MetadataImage
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from log_service.rpc.retry import Backoff

logger = logging.getLogger(__name__)

BACKOFF = Backoff(first_ms=100, max_ms=120_000)
"""The pause after a failed registration, as in Apache Kafka."""
REPEAT_MS = 1_000
"""The pause after a successful registration.

Two processes under one node id would replace each other's registration without end, but no faster
than this.
"""


class ControllerRegistrar:
    """Registers this node's controller. A publisher of images. ``run`` sends what is due.

    It gets each new metadata image by ``on_image``. ``endpoints`` are the advertised controller
    listeners by name. ``channel`` leads to the active controller.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        incarnation_id: UUID,
        endpoints: Mapping[str, Endpoint],
        channel: ControllerChannel,
        rng: Random,
    ) -> None:
        self._node_id = node_id
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._channel = channel
        self._rng = rng
        self._is_due = False
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<ControllerRegistrar node={self._node_id} {'due' if self._is_due else 'at rest'}>"

    def on_image(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        """Note whether the metadata has the registration of this process."""
        known = image.cluster.controllers.get(self._node_id)
        is_known = known is not None and known.incarnation_id == self._incarnation_id
        self._is_due = not is_known and METADATA_VERSION in image.features
        if self._is_due:
            self._changed.set()

    async def run(self) -> None:
        """Register whenever a registration is due, until cancelled."""
        failed_count = 0
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            if not self._is_due:
                continue
            try:
                await self._channel.request(self._message(), ControllerRegistrationResponse)
            except KafkaError as error:
                logger.warning(
                    "The active controller does not take the registration of controller %d yet: %s",
                    self._node_id,
                    error,
                )
                await trio.sleep(BACKOFF.delay_ms(failed_count, self._rng) / 1_000)
                failed_count += 1
                self._changed.set()
            else:
                failed_count = 0
                await trio.sleep(REPEAT_MS / 1_000)

    def _message(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(
                    name=name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for name, endpoint in self._endpoints.items()
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
        )
