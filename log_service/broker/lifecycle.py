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
from log_service.common.types import BrokerEpoch, TopicId
from log_service.config.views import NodeConfig
from log_service.controller.channel import ControllerChannel
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import Endpoint, MetadataImage
from log_service.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

logger = logging.getLogger(__name__)

NOT_REGISTERED = BrokerEpoch(-1)


class BrokerLifecycle:
    """This broker, as the controller knows it."""

    def __init__(self, config: NodeConfig, controller: ControllerChannel, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._controller = controller
        self._image = image
        self.broker_epoch = NOT_REGISTERED

    def __repr__(self) -> str:
        return f"<BrokerLifecycle broker={self._config.node_id} epoch={self.broker_epoch}>"

    async def register(
        self, *, cluster_id: str, incarnation_id: UUID, endpoints: Mapping[str, Endpoint], log_dirs: tuple[UUID, ...]
    ) -> None:
        """Become a member; fenced until ``unfence``.

        Raises:
            KafkaError: the controller refuses.
        """
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=cluster_id,
            incarnation_id=incarnation_id,
            listeners=[
                Listener(name=name, host=endpoint.host, port=endpoint.port, security_protocol=endpoint.security_protocol)
                for name, endpoint in endpoints.items()
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=self._config.rack,
            log_dirs=list(log_dirs),
        )
        response = await self._controller.request(request, BrokerRegistrationResponse)
        self.broker_epoch = BrokerEpoch(response.broker_epoch)

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
            await self._beat(wants_shut_down=True)

    async def assign_replica(self, topic_id: TopicId, index: int, directory_id: UUID) -> None:
        """Tell the controller in which log directory a replica of this broker is.

        Raises:
            KafkaError: the controller refuses.
        """
        from log_service.protocol.messages import assign_replicas_to_dirs as messages  # noqa: PLC0415 - few nodes move replicas
        from log_service.rpc.connection import raise_for  # noqa: PLC0415 - as above

        topic = messages.RequestTopicData(topic_id=topic_id, partitions=[messages.RequestPartitionData(partition_index=index)])
        request = messages.AssignReplicasToDirsRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            directories=[messages.RequestDirectoryData(id=directory_id, topics=[topic])],
        )
        response = await self._controller.request(request, messages.AssignReplicasToDirsResponse)
        raise_for(response.directories[0].topics[0].partitions[0].error_code, None, "AssignReplicasToDirs")

    async def _beat(self, *, wants_shut_down: bool = False) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._image().offset,
            want_shut_down=wants_shut_down,
        )
        return await self._controller.request(request, BrokerHeartbeatResponse)
