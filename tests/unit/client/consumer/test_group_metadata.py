"""A consumer describes itself to a transactional producer (KIP-447)."""

import logging

import pytest
import trio

from log_service.client import Consumer, ConsumerGroupMetadata, KafkaError
from log_service.common.errors import ErrorCode
from tests.unit.client.consumer_story import tell_consumer_story
from tests.unit.client.scripted_group import MEMBER_ID, Group

SERVERS = "127.0.0.1:1"


def test_a_consumer_that_has_not_joined_names_its_group_alone() -> None:
    consumer = Consumer(SERVERS, group_id="copy", group_instance_id="one", enable_auto_commit=False)
    assert consumer.group_metadata() == ConsumerGroupMetadata(
        group_id="copy", generation_id=-1, member_id="", group_instance_id=None
    )


def test_without_a_group_there_is_nothing_to_tell() -> None:
    with pytest.raises(KafkaError, match="a consumer without group_id is in no group"):
        Consumer(SERVERS).group_metadata()


@pytest.mark.parametrize("is_automatic", [True, False])
def test_a_consumer_that_commits_by_itself_is_warned_of_once(
    is_automatic: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It would commit what an aborted transaction had read, and those records would be lost."""
    consumer = Consumer(SERVERS, group_id="copy", enable_auto_commit=is_automatic)
    with caplog.at_level(logging.WARNING):
        consumer.group_metadata()
        consumer.group_metadata()
    warned = [record.getMessage() for record in caplog.records]
    text = "group copy: enable_auto_commit is on beside transactions: what an aborted one read is lost. Set it to False"
    assert warned == ([text] if is_automatic else [])


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, None], ids=str
)
def test_a_member_that_its_group_has_forgotten_names_itself_until_it_has_joined_again(
    code: ErrorCode | None,
) -> None:
    """Offsets that name no member count from every sender.

    Those of a member that hung would go beside those of its successor.
    """

    async def story(group: Group, consumer: Consumer) -> None:
        while not consumer.assignment:
            await consumer.poll(timeout_ms=100)
        before = consumer.group_metadata()
        assert (before.generation_id, before.member_id) == (1, MEMBER_ID)
        group.beats += [code] * (code is not None)
        # Longer than it may be without a poll: where it is not refused it has left.
        await trio.sleep(10)
        assert len(group.leaves) == (code is None)
        assert consumer.group_metadata() == before
        while consumer.group_metadata() == before:
            await consumer.poll(timeout_ms=100)
        assert (consumer.group_metadata().generation_id, consumer.group_metadata().member_id) == (
            2,
            MEMBER_ID,
        )

    limit_ms = 60_000 if code is not None else 6_000
    tell_consumer_story(
        story, Group, group_id="copy", enable_auto_commit=False, max_poll_interval_ms=limit_ms
    )
