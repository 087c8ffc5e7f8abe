"""Every version of every API is answered, whatever little it asks for, and the node is none the worse for it."""

from typing import Any

import pytest

from log_service.broker.registry import REGISTRY
from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.produce import ProduceRequest
from tests.unit.broker.context import Story, batch, tell
from tests.unit.broker.test_group_apis import coordinated

VERSIONS = [
    (spec.key, version) for spec in (api.spec for api in REGISTRY.values()) for version in range(spec.min_version, spec.max_version + 1)
]


def least_request(key: ApiKey) -> Any:
    """What a client sends that fills in nothing."""
    return ProduceRequest(acks=-1) if key is ApiKey.PRODUCE else request_class(key)()


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS])
def test_the_least_request_is_answered(key: ApiKey, version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        await node.ask(least_request(key), version)
        assert (await node.ask(MetadataRequest(topics=None), 13)).error_code == 0
        assert (await node.produce("a", batch(b"one"))).error_code == 0

    tell(story)
