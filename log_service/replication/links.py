"""How replication reaches the other nodes of the cluster.

Decides nothing. No connection is opened, and no client code imported, before a partition of this node has a replica on another node.
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
    """Where a broker sends what the controller decides."""

    async def request(self, request: Message, response_type: type[R]) -> R:
        """Return the controller's response. Raises KafkaError: it refuses the request as a whole, or cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLinks:
    """What a node uses to speak to others about partitions.

    ``pool()`` returns the connections to other nodes, ``broker_epoch()`` the epoch that the controller gave to this start of the node;
    ``listener_name`` is the listener on which brokers reach each other.
    """

    controller: AsksController
    pool: "Callable[[], ConnectionPool]"
    broker_epoch: Callable[[], int]
    listener_name: str
    config: ReplicationConfig = field(default_factory=ReplicationConfig)
