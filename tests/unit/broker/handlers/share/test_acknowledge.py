"""These tests tell which members may acknowledge, and how (KIP-932).

They also look at the partitions that a response names.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from tests.unit.broker.share.context import ACCEPT, Ack, Member, ShareNode, batch, tell_shares

UNKNOWN_ID = UUID(int=99)
ACKNOWLEDGED = 2


async def say(
    member: Member, said: Mapping[tuple[UUID, int], list[Ack]], **changes: Any
) -> ShareAcknowledgeResponse:
    """Acknowledge in some partitions, by topic id and index."""
    topics = [
        AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                AcknowledgePartition(
                    partition_index=index,
                    acknowledgement_batches=[
                        AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=list(types)
                        )
                        for first, last, types in acks
                    ],
                )
            ],
        )
        for (topic_id, index), acks in said.items()
    ]
    request = ShareAcknowledgeRequest(
        group_id=member.group,
        member_id=member.member_id,
        share_session_epoch=member.epoch,
        is_renew_ack=False,
        topics=topics,
    )
    response: ShareAcknowledgeResponse = await member.node.ask(
        replace(request, **changes), member.version, member.connection
    )
    member.epoch += not response.error_code
    return response


def told(response: ShareAcknowledgeResponse) -> dict[tuple[UUID, int], PartitionData]:
    return {
        (topic.topic_id, each.partition_index): each
        for topic in response.responses
        for each in topic.partitions
    }


@pytest.mark.parametrize("length", [1, 36])
def test_a_member_id_has_up_to_36_characters(length: int) -> None:
    """A UUID with its hyphens has as many."""

    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(b"one"))
        member = node.member()
        member.member_id = "m" * length
        assert (await member.fetch()).acquired == [(0, 0, 1)]
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0

    tell_shares(story)


def test_a_request_without_a_group_or_a_member_is_refused() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        member = node.member()
        await member.fetch()
        for wrong in ({"group_id": None}, {"member_id": None}, {"member_id": ""}):
            assert (await say(member, {}, **wrong)).error_code == ErrorCode.INVALID_REQUEST

    tell_shares(story)


def test_each_partition_is_decided_on_by_itself() -> None:
    """One of which nothing is said is named with the others; alone it is not."""

    async def story(node: ShareNode) -> None:
        for topic in ("a", "b", "c"):
            await node.share(topic)
            await node.produce(topic, batch(b"one"))
        a, b, c = ((node.topic_ids[topic], 0) for topic in ("a", "b", "c"))
        member = node.member()
        await member.send(("a", "b", "c"))
        unknown, missing = (UNKNOWN_ID, 0), (node.topic_ids["a"], 7)
        accepted: list[Ack] = [(0, 0, [ACCEPT])]
        results = told(
            await say(
                member,
                {a: accepted, b: [(0, 5, [ACCEPT])], c: [], unknown: accepted, missing: accepted},
            )
        )
        leaders = {each.current_leader.leader_id for each in results.values() if each.error_code}
        assert leaders == {-1}, "a client takes any other for a new leader"
        assert {where: each.error_code for where, each in results.items()} == {
            a: ErrorCode.NONE,
            b: ErrorCode.INVALID_REQUEST,
            c: ErrorCode.NONE,
            unknown: ErrorCode.UNKNOWN_TOPIC_ID,
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert told(await say(member, {c: []})) == {}
        assert node.stored("a") == (0, [(0, 0, ACKNOWLEDGED, 1)])
        assert node.stored("b") == (0, [])

    tell_shares(story)


def test_ranges_that_overlap_are_refused_together_and_change_nothing() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for _ in range(2):
            await node.produce("a", batch(b"one", b"two"))
        member = node.member()
        assert (await member.fetch()).acquired == [(0, 3, 1)]
        assert (
            await member.acknowledge((0, 2, [ACCEPT]), (1, 3, [ACCEPT]))
            == ErrorCode.INVALID_REQUEST
        )
        assert (
            await member.acknowledge((0, 2, [ACCEPT]), (2, 3, [ACCEPT]))
            == ErrorCode.INVALID_RECORD_STATE
        )
        assert node.stored() == (0, [])
        assert await member.acknowledge((0, 2, [ACCEPT]), (3, 3, [ACCEPT])) == 0
        assert node.stored() == (0, [(0, 3, ACKNOWLEDGED, 1)])

    tell_shares(story)


def test_what_lies_before_the_start_is_accepted_and_nothing_beyond_is() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(*[b"one"] * 4))
        member, other = node.member(), node.member()
        assert (await member.fetch()).acquired == [(0, 3, 1)]
        assert await member.acknowledge((0, 1, [ACCEPT])) == 0
        assert await member.acknowledge((0, 1, [ACCEPT])) == 0
        assert await member.acknowledge((0, 2, [ACCEPT])) == 0
        assert await member.acknowledge((3, 4, [ACCEPT])) == ErrorCode.INVALID_REQUEST
        await other.fetch()
        assert await other.acknowledge((3, 3, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert node.stored() == (2, [(2, 2, ACKNOWLEDGED, 1)])

    tell_shares(story)
