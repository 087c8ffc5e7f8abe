"""A node that does not know all ACLs yet lets in super users alone.

A broker that starts is such a node, whatever ACLs it has read already.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from log_service.broker.authorization.node_authorizer import NodeAuthorizer
from log_service.common.errors import ErrorCode
from log_service.metadata.image import EMPTY_IMAGE
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.metadata import MetadataRequest
from tests.unit.broker.authorization.acl_story import GROUP, TOPIC, AclStory, codes, tell_with_acls
from tests.unit.broker.authorization.matrix import DESCRIBE, READ, WRITE
from tests.unit.broker.context import batch, fetch_request, produce_request

NOT_YET = ErrorCode.NOT_CONTROLLER


def forget_that_acls_are_known(node: AclStory) -> NodeAuthorizer:
    authorizer = node.broker.authorizer
    assert authorizer is not None
    authorizer.acls.is_loaded = False
    return authorizer


async def asked(node: AclStory) -> list[set[int]]:
    """Return the error codes of four requests.

    They are a produce, the same produce once more, which is recognized by its bytes, a fetch,
    and a search for a coordinator.
    """
    told = [await node.ask(produce_request("t", batch(b"x")), 12) for _ in range(2)]
    told.append(await node.ask(fetch_request("t", 0), 12))
    told.append(await node.ask(FindCoordinatorRequest(key="g", key_type=0), 1))
    return [codes(each) - {0} for each in told]


async def seen(node: AclStory) -> list[str]:
    return [
        topic.name
        for topic in (await node.ask(MetadataRequest(topics=None), 12)).topics
        if topic.name == "t"
    ]


@pytest.mark.parametrize("is_open", ["true", "false"])
def test_those_whom_acls_allow_wait_until_all_acls_are_known(is_open: str) -> None:
    """An ACL that denies may be among those that are still to come."""

    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await node.allow((READ, TOPIC, "t"), (WRITE, TOPIC, "t"), (DESCRIBE, GROUP, "g"))
        authorizer = forget_that_acls_are_known(node)
        assert (await asked(node), await seen(node)) == ([{NOT_YET}] * 4, [])
        authorizer.acls.is_loaded = True
        await asked(node)
        await trio.sleep(5)  # the topic of groups is made
        assert (await asked(node), await seen(node)) == ([set()] * 4, ["t"])

    tell_with_acls(story, allow_everyone_if_no_acl_found=is_open)


def test_super_users_need_not_wait() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        forget_that_acls_are_known(node)
        assert (await node.produce("t", batch(b"x"))).error_code == 0
        assert (await node.fetch("t", 0)).error_code == 0

    tell_with_acls(story, super_users="User:ANONYMOUS")


def test_acls_are_known_once_an_image_has_all_that_is_committed() -> None:
    known = {"high_watermark": 0}
    settings: Any = SimpleNamespace(super_users=frozenset(), is_open=False, audit=None)
    world: Any = SimpleNamespace(clock=SimpleNamespace(wall_ms=lambda: 0))
    anything: Any = None
    authorizer = NodeAuthorizer(
        world, anything, settings, lambda: EMPTY_IMAGE, lambda: known["high_watermark"]
    )
    nothing: Any = SimpleNamespace(changed_acls=())
    for high_watermark, offset, is_loaded in (
        (0, -1, False),
        (0, 9, False),
        (11, 9, False),
        (10, 9, True),
        (20, 10, True),
    ):
        known["high_watermark"] = high_watermark
        image: Any = SimpleNamespace(offset=offset)
        authorizer.on_image(nothing, image)
        assert authorizer.acls.is_loaded is is_loaded, (high_watermark, offset)
