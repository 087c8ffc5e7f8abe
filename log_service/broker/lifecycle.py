"""A broker's membership: it registers with each start, keeps its session alive, and says when it goes.

Decides when the controller is told what. Knows no partitions: what membership means for them comes back through the image.

Invariants: the broker epoch is the controller's, one for each start; the broker is unfenced only after it has replayed its own
registration.
"""

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

import trio

from log_service.common.errors import KafkaError
from log_service.common.types import BrokerEpoch, NodeId
from log_service.config.views import NodeConfig
from log_service.controller.driver import ControllerDriver
from log_service.controller.rules.brokers import Heartbeat, HeartbeatReply, RegisterBroker
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import Endpoint, MetadataImage

logger = logging.getLogger(__name__)

NOT_REGISTERED = BrokerEpoch(-1)


class Lifecycle:
    """This broker, as the controller knows it."""

    def __init__(self, config: NodeConfig, controller: ControllerDriver, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._node_id = NodeId(config.node_id)
        self._controller = controller
        self._image = image
        self.broker_epoch = NOT_REGISTERED

    def __repr__(self) -> str:
        return f"<Lifecycle broker={self._node_id} epoch={self.broker_epoch}>"

    async def register(
        self, *, cluster_id: str, incarnation_id: UUID, endpoints: Mapping[str, Endpoint], log_dirs: tuple[UUID, ...]
    ) -> None:
        """Become a member; fenced until ``unfence``.

        Raises:
            KafkaError: the controller refuses.
        """
        self.broker_epoch = await self._controller.register_broker(
            RegisterBroker(
                node_id=self._node_id,
                cluster_id=cluster_id,
                incarnation_id=incarnation_id,
                endpoints=endpoints,
                log_dirs=log_dirs,
                rack=self._config.rack,
                features=SUPPORTED_FEATURES,
            )
        )

    async def unfence(self) -> None:
        """Ask until the controller lets this broker lead.

        Raises:
            KafkaError: the controller refuses.
        """
        while (await self._beat()).is_fenced:  # noqa: ASYNC110 - the controller is asked, it does not call
            await trio.sleep(self._config.broker_heartbeat_interval_ms / 1000)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the session alive until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self._config.broker_heartbeat_interval_ms / 1000)
            try:
                await self._beat()
            except KafkaError as error:
                logger.warning("The controller refused a heartbeat: %s", error)

    async def leave(self) -> None:
        """Give up what this broker leads, before it stops.

        Raises:
            KafkaError: the controller refuses.
        """
        if self.broker_epoch != NOT_REGISTERED:
            await self._beat(wants_shutdown=True)

    async def _beat(self, *, wants_shutdown: bool = False) -> HeartbeatReply:
        return await self._controller.heartbeat(
            Heartbeat(
                node_id=self._node_id,
                broker_epoch=self.broker_epoch,
                metadata_offset=self._image().offset,
                wants_shutdown=wants_shutdown,
            )
        )
