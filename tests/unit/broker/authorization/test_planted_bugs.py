"""Each planted bug lets a client do something that it may not.

One check sees the bug, and sees nothing without it.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from log_service.broker.authorization.access import Access
from log_service.broker.authorization.node_authorizer import NodeAuthorizer
from log_service.broker.handlers.fetch import reads
from log_service.broker.handlers.produce.repeated import RepeatedCall
from log_service.common.access import AclOperation
from log_service.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.security.acls.authorizer import AclAuthorizer
from tests.unit.broker.authorization.acl_story import (
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    AclStory,
    codes,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import READ, WRITE, Things
from tests.unit.broker.authorization.matrix_requests import add_partitions_request
from tests.unit.broker.authorization.matrix_steps import fitted, prepare
from tests.unit.broker.context import batch, fetch_request

Check = Callable[[AclStory], Awaitable[None]]
Plant = Callable[[pytest.MonkeyPatch], None]


async def check_repeated_produces(node: AclStory) -> None:
    await node.have_only((WRITE, TOPIC, "t"))
    for _ in range(3):
        assert (await node.produce("t", batch(b"x"))).error_code == 0
    await node.have_only((READ, TOPIC, "t"))
    assert (await node.produce("t", batch(b"x"))).error_code == 29


async def check_fetch_by_id(node: AclStory) -> None:
    request = fetch_request("", 0)
    request.topics[0].topic_id = node.broker.image.topics.by_name["t"].topic_id
    assert codes(await node.ask(request, 13)) == {0, 29}


async def check_transaction(node: AclStory) -> None:
    await node.make_topic("other")
    await node.have_only((WRITE, TRANSACTIONAL_ID, "x"), (WRITE, TOPIC, "t"))
    asking = fitted(add_partitions_request(Things(), 3), 3)
    asking.v3_and_below_topics.append(AddPartitionsToTxnTopic(name="other", partitions=[0]))
    told = await node.ask(asking, 3)
    assert {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in told.results_by_topic_v3_and_below
    } == {
        "t": 55,
        "other": 29,
    }


async def check_forwarding(node: AclStory) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)],
        timeout_ms=1_000,
    )
    assert codes(await node.ask(request, 7)) == {29}
    assert "new" not in node.broker.image.topics.by_name


async def check_removal(node: AclStory) -> None:
    await node.have_only((READ, TOPIC, "t"))
    assert (await node.fetch("t", 0)).error_code == 0
    await node.forget_acls()
    assert (await node.fetch("t", 0)).error_code == 29


async def check_group_bits(node: AclStory) -> None:
    await node.have_only((READ, GROUP, "g"))
    told = await node.ask(
        DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5
    )
    assert told.groups[0].authorized_operations == 1 << READ | 1 << AclOperation.DESCRIBE


def skip_the_short_way(patch: pytest.MonkeyPatch) -> None:
    """Let a request through if its bytes are recognized, because it was allowed when it was
    decoded.
    """
    asked = NodeAuthorizer.authorize
    patch.setattr(
        NodeAuthorizer,
        "authorize",
        lambda self, call: None if isinstance(call, RepeatedCall) else asked(self, call),
    )


def trust_ids(patch: pytest.MonkeyPatch) -> None:
    """A target without a name is taken for one that may be read."""
    asked = reads.is_topic_readable
    patch.setattr(
        reads,
        "is_topic_readable",
        lambda node, access, target, *rest: not target.name or asked(node, access, target, *rest),
    )


def look_at_the_first_topic(patch: pytest.MonkeyPatch) -> None:
    """The first topic decides for all of a request."""
    allowed = Access.allowed

    def of_the_first(self: Access, operation: Any, resource: Any, names: Any) -> set[str]:
        asked = list(names)
        return set(asked) if asked and allowed(self, operation, resource, asked[:1]) else set()

    patch.setattr(Access, "allowed", of_the_first)


def trust_the_broker(patch: pytest.MonkeyPatch) -> None:
    """Treat forwarded requests as the broker's own."""
    patch.setattr(NodeAuthorizer, "admit", lambda self, request, response_type, caller: None)


def keep_decisions(patch: pytest.MonkeyPatch) -> None:
    """A change of ACLs leaves the decisions that were made before."""

    def follow(self: AclAuthorizer, index: Any) -> None:
        self._index = index

    patch.setattr(AclAuthorizer, "follow", follow)


def tell_every_operation(patch: pytest.MonkeyPatch) -> None:
    """Whoever may describe a group is told that it may do everything with it."""
    patch.setattr(
        Access,
        "bits",
        lambda self, resource, name, operations: sum(1 << operation for operation in operations),
    )


BUGS: list[tuple[Plant, Check]] = [
    (skip_the_short_way, check_repeated_produces),
    (trust_ids, check_fetch_by_id),
    (look_at_the_first_topic, check_transaction),
    (trust_the_broker, check_forwarding),
    (keep_decisions, check_removal),
    (tell_every_operation, check_group_bits),
]


@pytest.mark.parametrize(("plant", "check"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_is_caught(plant: Plant, check: Check) -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await check(node)

    tell_with_acls(story)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError):
            tell_with_acls(story)
