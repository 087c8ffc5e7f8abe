"""What a consumer tells a transactional producer of itself (KIP-447)."""

import logging

import pytest

from log_service.client import Consumer, ConsumerGroupMetadata, KafkaError

SERVERS = "127.0.0.1:1"


def test_a_consumer_that_has_not_joined_names_its_group_alone() -> None:
    consumer = Consumer(SERVERS, group_id="copy", group_instance_id="one", enable_auto_commit=False)
    assert consumer.group_metadata() == ConsumerGroupMetadata(group_id="copy", generation_id=-1, member_id="", group_instance_id=None)


def test_without_a_group_there_is_nothing_to_tell() -> None:
    with pytest.raises(KafkaError, match="a consumer without group_id is in no group"):
        Consumer(SERVERS).group_metadata()


@pytest.mark.parametrize("is_automatic", [True, False])
def test_a_consumer_that_commits_by_itself_is_warned_of_once(is_automatic: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It would commit what an aborted transaction had read, and those records would be lost."""
    consumer = Consumer(SERVERS, group_id="copy", enable_auto_commit=is_automatic)
    with caplog.at_level(logging.WARNING):
        consumer.group_metadata()
        consumer.group_metadata()
    warned = [record.getMessage() for record in caplog.records]
    text = "group copy: enable_auto_commit is on beside transactions: what an aborted one read is lost. Set it to False"
    assert warned == ([text] if is_automatic else [])
