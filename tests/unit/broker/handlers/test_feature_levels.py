"""Feature levels go down and up while a node serves groups and transactions (KIP-584).

The tests tell what holds at each level, and from when on.
"""

from typing import Any

import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from log_service.records.batch import iterate_headers, iterate_records
from tests.unit.broker.context import Story, tell

UPGRADE, SAFE_DOWNGRADE = 1, 2
GROUPS, TRANSACTIONS = 0, 1


async def set_level(node: Story, feature: str, level: int, way: int) -> None:
    """Have the cluster finalize a level, and see that ApiVersions tells it."""
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=way)
    assert (
        await node.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update]), 1)
    ).error_code == ErrorCode.NONE
    told = await node.ask(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4
    )
    finalized = {each.name: each.max_version_level for each in told.finalized_features}
    assert finalized.get(feature, 0) == level


async def begun(node: Story, key: str, key_type: int) -> None:
    """Have a topic, and a coordinator that is there."""
    await node.create_topic("orders", 2)
    asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    assert (await node.ask(asked, 4)).coordinators[0].error_code == ErrorCode.NONE


async def beat(node: Story, epoch: int) -> Any:
    about: dict[str, Any] = (
        {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
        }
        if epoch == 0
        else {}
    )
    return await node.ask(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **about), 1
    )


def test_the_consumer_protocol_goes_with_its_feature_and_comes_back_with_its_groups() -> None:
    async def story(node: Story) -> None:
        await begun(node, "g", GROUPS)
        joined = await beat(node, 0)
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
        await set_level(node, "group.version", 0, SAFE_DOWNGRADE)
        assert (await beat(node, 2)).error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await node.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
        assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION
        await set_level(node, "group.version", 1, UPGRADE)
        again = await beat(node, 2)
        assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, 2)

    tell(story)


def test_a_broker_that_leaves_the_protocol_out_serves_no_consumer_groups() -> None:
    async def story(node: Story) -> None:
        assert (await beat(node, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION

    tell(story, group_coordinator_rebalance_protocols="classic,streams")


async def add(node: Story, given: Any, *partitions: int) -> None:
    """Add partitions to the transaction of a producer, as clients do that do not know version 2."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=list(partitions))],
    )
    (added,) = (await node.ask(request, 3)).results_by_topic_v3_and_below
    assert {each.partition_error_code for each in added.results_by_partition} == {ErrorCode.NONE}


async def stored_versions(node: Story) -> list[int]:
    """Return in which versions the only partition of transactions holds what it does."""
    found: Any = await node.fetch("__transaction_state", 0)
    content = bytes(found.records or b"")
    records = [
        record
        for position, _ in iterate_headers(content)
        for record in iterate_records(content, position)
    ]
    return [int.from_bytes(bytes(record.value or b"")[:2], "big") for record in records]


def test_a_transaction_that_began_below_version_2_ends_by_it_once_the_cluster_has_it() -> None:
    async def story(node: Story) -> None:
        await set_level(node, "transaction.version", 0, SAFE_DOWNGRADE)
        await begun(node, "t", TRANSACTIONS)
        given = await node.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4
        )
        await add(node, given, 0, 1)
        assert await stored_versions(node) == [0, 0]
        await set_level(node, "transaction.version", 2, UPGRADE)
        ending = EndTxnRequest(
            transactional_id="t",
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            committed=True,
        )
        ended = await node.ask(ending, 5)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (
            ErrorCode.NONE,
            given.producer_id,
            given.producer_epoch + 1,
        )
        await trio.sleep(1)
        assert await stored_versions(node) == [0, 0, 1, 1]

    tell(story, transaction_state_log_num_partitions="1")


def test_a_producer_that_speaks_the_old_versions_keeps_its_epoch_whatever_the_level() -> None:
    async def story(node: Story) -> None:
        await begun(node, "t", TRANSACTIONS)
        given = await node.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4
        )
        for level, way in (
            (2, UPGRADE),
            (1, SAFE_DOWNGRADE),
            (0, SAFE_DOWNGRADE),
            (1, UPGRADE),
            (2, UPGRADE),
        ):
            await set_level(node, "transaction.version", level, way)
            await add(node, given, 0)
            ending = EndTxnRequest(
                transactional_id="t",
                producer_id=given.producer_id,
                producer_epoch=given.producer_epoch,
                committed=True,
            )
            ended = await node.ask(ending, 4)
            assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, -1)
            await trio.sleep(1)

    tell(story)
