"""Our bytes are kafka-python's bytes, and it reads all of them.

Two codecs come from the same public schemas.
"""

from dataclasses import fields
from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.protocol.api_versions import KNOWN, ApiKey
from log_service.protocol.codec import encode
from log_service.protocol.reader import NO_UUID
from log_service.protocol.schema import Message, has_version
from tests.unit.protocol.instances import in_each_version, messages, named
from tests.unit.protocol.kafka_python_classes import their_class

THEIR_SETS = {
    "MetadataResponse": {"cluster_authorized_operations"},
    "MetadataResponseTopic": {"topic_authorized_operations"},
    "DescribeClusterResponse": {"cluster_authorized_operations"},
    "DescribedGroup": {"authorized_operations"},
}
"""Numbers of ours that are sets of bit numbers with them, all of one name."""

few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


def as_theirs(value: Any) -> Any:
    """Return a message as nested dictionaries.

    Sets of operations are sets of bit numbers, and the zero uuid is their default for it.
    """
    if isinstance(value, list):
        return [as_theirs(each) for each in value]
    if not hasattr(value, "SCHEMA"):
        return None if value == NO_UUID else value
    plain = {field.name: as_theirs(getattr(value, field.name)) for field in fields(value)}
    for name in plain.keys() & THEIR_SETS.get(type(value).__name__, set()):
        plain["authorized_operations"] = {bit for bit in range(32) if plain[name] >> bit & 1}
    return plain


def shared() -> list[type[Message]]:
    return [cls for cls in messages() if their_class(cls.__name__) is not None]


def test_every_served_api_of_kafka_is_compared() -> None:
    compared = {cls.__name__ for cls in shared()}
    served = {
        spec.name
        for key, spec in KNOWN.items()
        if key in REGISTRY and Side.BROKER in REGISTRY[ApiKey(key)].sides
    }
    unknown_to_them = {
        "AddRaftVoter",
        "AlterShareGroupOffsets",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "CreateDelegationToken",
        "DeleteShareGroupOffsets",
        "DeleteShareGroupState",
        "DescribeDelegationToken",
        "DescribeShareGroupOffsets",
        "ExpireDelegationToken",
        "GetTelemetrySubscriptions",
        "InitializeShareGroupState",
        "Maintenance",
        "PushTelemetry",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        "ShareRecords",
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "UnregisterBroker",
        "WriteShareGroupState",
    }
    missing = {f"{name}{way}" for name in served for way in ("Request", "Response")} - compared
    assert missing == {
        f"{name}{way}" for name in unknown_to_them for way in ("Request", "Response")
    }


@pytest.mark.parametrize("cls", shared(), ids=named)
@few
@given(drawn=st.data())
def test_bytes_are_the_same(cls: type[Message], drawn: Any) -> None:
    theirs = their_class(cls.__name__)._struct
    for version, message in in_each_version(drawn, cls):
        encoded = encode(message, version)
        flexible = has_version(cls.SCHEMA.flexible, version)
        assert (
            theirs.encode(
                as_theirs(message), version=version, compact=flexible, tagged=flexible
            ).hex()
            == encoded.hex()
        )
        unread = BytesIO(encoded)
        theirs.decode(unread, version=version, compact=flexible, tagged=flexible)
        assert unread.read() == b""
