"""Acknowledging and forgetting need READ of each topic, too.

Only a share group with members is asked about these rights.
"""

import pytest
import trio

from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.broker.authorization.acl_story import (
    DENIALS,
    GROUP,
    TOPIC,
    AclStory,
    Right,
    codes,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import DELETE, DESCRIBE, READ, WRITE, Things
from tests.unit.broker.authorization.matrix_requests import (
    share_acknowledge_request,
    share_fetch_request,
)
from tests.unit.broker.authorization.matrix_steps import members, prepare, state
from tests.unit.broker.context import batch, produce_request

MEMBER = "m"


async def beat(node: AclStory, epoch: int) -> int:
    request = ShareGroupHeartbeatRequest(
        group_id="sg", member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=["t"]
    )
    told = await node.ask(request, 1)
    assert told.error_code == 0
    epoch = told.member_epoch
    assert isinstance(epoch, int)
    return epoch


async def joined(node: AclStory) -> Things:
    """Make the share group ``sg`` with a member that has an open session."""
    things = await prepare(node)
    things = Things(topic_id=things.topic_id, group="sg")
    await node.may_do_everything()
    epoch = await beat(node, 0)
    await trio.sleep(5)  # the positions of the group begin, and then the member is given partitions
    await beat(node, epoch)
    assert members(node)["sg"] == (MEMBER,)
    assert not codes(await node.ask(share_fetch_request(things, 1), 1)) & DENIALS
    return things


def test_acknowledging_needs_read_of_the_topic() -> None:
    async def story(node: AclStory) -> None:
        things = await joined(node)
        await node.have_only((READ, GROUP, "sg"))
        before = state(node)
        told = await node.ask(share_acknowledge_request(things, 1), 1)
        assert (told.error_code, told.responses[0].partitions[0].error_code) == (0, 29)
        assert state(node) == before
        await node.have_only((READ, GROUP, "sg"), (READ, TOPIC, "t"))
        asking = share_acknowledge_request(things, 1)
        asking.share_session_epoch = 2
        told = await node.ask(asking, 1)
        assert told.error_code == 0
        assert not codes(told) & DENIALS

    tell_with_acls(story)


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ([(READ, GROUP, "sg"), (READ, TOPIC, "t")], [(0, [1])]),
        ([(READ, GROUP, "sg")], [(29, [])]),
        ([(READ, TOPIC, "t")], []),
    ],
    ids=["all", "group", "topic"],
)
def test_a_fetch_that_waited_gives_what_may_be_read_when_its_wait_ends(
    left: list[Right], told: list[tuple[int, list[int]]]
) -> None:
    async def story(node: AclStory) -> None:
        things = await joined(node)
        waiting, producer = share_fetch_request(things, 1), await node.connect()
        waiting.share_session_epoch, waiting.topics = 1, []
        waiting.max_wait_ms, waiting.min_bytes = 600_000, 1
        await node.client.send(waiting, 1)
        await trio.sleep(1)
        await node.have_only(*left, (WRITE, TOPIC, "t"))
        assert (await producer.ask(produce_request("t", batch(b"secret")), 9)).responses[
            0
        ].partition_responses[0].error_code == 0
        with trio.fail_after(5):
            response = await node.client.receive()
        assert response.error_code == 0
        found = [partition for topic in response.responses for partition in topic.partitions]
        assert [
            (each.error_code, [one.first_offset for one in each.acquired_records]) for each in found
        ] == told
        assert all(bool(each.records) == (each.error_code == 0) for each in found)

    tell_with_acls(story)


def test_forgetting_positions_needs_read_of_the_topic() -> None:
    async def story(node: AclStory) -> None:
        await joined(node)
        await beat(node, -1)
        await trio.sleep(5)
        await node.have_only((DELETE, GROUP, "sg"))
        request = DeleteShareGroupOffsetsRequest(
            group_id="sg", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        )
        before = state(node)
        told = await node.ask(request, 0)
        assert (told.error_code, [topic.error_code for topic in told.responses]) == (0, [29])
        assert state(node) == before
        await node.have_only((DELETE, GROUP, "sg"), (READ, TOPIC, "t"))
        told = await node.ask(request, 0)
        assert (told.error_code, [topic.error_code for topic in told.responses]) == (0, [0])

    tell_with_acls(story)


def test_a_group_whose_topics_may_not_be_described_is_not_shown() -> None:
    async def story(node: AclStory) -> None:
        await joined(node)
        request = ShareGroupDescribeRequest(group_ids=["sg"])
        await node.have_only((DESCRIBE, GROUP, "sg"))
        (told,) = (await node.ask(request, 1)).groups
        assert (told.error_code, told.members) == (29, [])
        await node.have_only((DESCRIBE, GROUP, "sg"), (DESCRIBE, TOPIC, "t"))
        (told,) = (await node.ask(request, 1)).groups
        assert (told.error_code, len(told.members)) == (0, 1)

    tell_with_acls(story)
