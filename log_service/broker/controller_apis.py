"""What the listener of the controller answers: admin clients that ask a controller by themselves (``bootstrap.controllers``, KIP-919).

Decides the APIs, which are those of Apache Kafka's controller that concern an admin client of a single node; what passes between
controllers and brokers has no place here. Handlers are the brokers' own: the controller is in the same process.
"""

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.protocol.api_versions import ApiKey

CONTROLLER_APIS = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


def asks_controller(node: Node, call: Call) -> bool:
    """Whether a request came through the listener of the controller."""
    listener = node.config.controller_listener
    return listener is not None and call.connection.listener_name == listener.name
