"""Connections of replication to the other nodes of the cluster.

This file only declares what the other modules need. A connection is opened, and client code
imported, only when a partition of this node has a replica on another node.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from log_service.config.views import ReplicationConfig
from log_service.protocol.schema import Message

if TYPE_CHECKING:
    from log_service.rpc.pool import ConnectionPool

R = TypeVar("R", bound=Message)


class AsksController(Protocol):
    """Interface for sending a broker's requests to the controller."""

    async def request(self, request: Message, response_type: type[R]) -> R:
        """Return the controller's response.

        Raises:
            KafkaError: the controller refuses the whole request or cannot be reached.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLinks:
    """Access of a node's replication to the other nodes.

    ``pool()`` returns the connections to other nodes. ``broker_epoch()`` returns the epoch that the
    controller assigned when this node started. ``listener_name`` is the listener on which brokers
    reach each other.
    """

    controller: AsksController
    pool: "Callable[[], ConnectionPool]"
    broker_epoch: Callable[[], int]
    listener_name: str
    config: ReplicationConfig = field(default_factory=ReplicationConfig)
