"""Requests about one broker's own configuration: they have to name the broker that they reach."""

from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError


def validate_own_broker(node: Node, name: str) -> None:
    """Check that a resource's name is this broker's number.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if not (name.isascii() and name.isdecimal()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a broker is named by its number, not {name!r}")
    if int(name) != node.config.node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {node.config.node_id}, not {name}: ask that one")
