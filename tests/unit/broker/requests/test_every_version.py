"""A node responds to every version of every API, however little a request asks for.

The node is as good as before.
"""

import pytest

from log_service.broker.requests.call import Side
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.metadata import MetadataRequest
from tests.unit.broker.context import HOST, PORT, Story, batch, tell
from tests.unit.broker.handlers.groups.group_requests import coordinated
from tests.unit.broker.requests.least_requests import VERSIONS, least_request, versions_of

CONTROLLER_PORT = 9093


CONTROLLER_VERSIONS = versions_of(Side.CONTROLLER)


@pytest.mark.parametrize(
    ("key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS]
)
def test_the_least_request_is_answered(key: ApiKey, version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        await node.ask(least_request(key), version)
        await still_serves(node)

    tell(story)


@pytest.mark.parametrize(
    ("key", "version"),
    CONTROLLER_VERSIONS,
    ids=[f"{key.name}-{version}" for key, version in CONTROLLER_VERSIONS],
)
def test_the_least_request_is_answered_by_the_controller(key: ApiKey, version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        client = await node.connect(CONTROLLER_PORT)
        await client.ask(least_request(key), version)
        await still_serves(node)

    tell(
        story,
        listeners=f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:{CONTROLLER_PORT}",
        controller_listener_names="CONTROLLER",
    )


async def still_serves(node: Story) -> None:
    assert (await node.ask(MetadataRequest(topics=None), 13)).error_code == 0
    assert (await node.produce("a", batch(b"one"))).error_code == 0
