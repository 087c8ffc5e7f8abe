"""What the coordinator reads of a consumer's metadata: the topics that it subscribes to. Everything else is between the members.

Knows the public format of subscriptions in all versions; a newer version is read as the newest that is known here.
"""

import struct

from log_service.common.errors import ProtocolError
from log_service.protocol.codec import decode
from log_service.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from log_service.protocol.schema import version_span

CONSUMER_PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = version_span(ConsumerProtocolSubscription.SCHEMA.valid)[1]

_VERSION = struct.Struct(">h")


def subscribed_topics_of(metadata: bytes) -> list[str]:
    """Return the topics of one member's metadata.

    Raises:
        ProtocolError: the bytes are no subscription.
    """
    if len(metadata) < _VERSION.size:
        raise ProtocolError(f"{len(metadata)} bytes are no subscription")
    version = min(_VERSION.unpack_from(metadata)[0], NEWEST_VERSION)
    subscription, _ = decode(ConsumerProtocolSubscription, version, metadata, _VERSION.size)
    return subscription.topics
