"""The requests of the matrix, and the rows of families of APIs."""

from collections.abc import Callable
from typing import Any

from log_service.broker.registry import REGISTRY
from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    alter_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_configs,
    describe_share_group_offsets,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    initialize_share_group_state,
    list_offsets,
    offset_commit,
    offset_fetch,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_records,
    sync_group,
    txn_offset_commit,
    write_share_group_state,
    write_txn_markers,
)
from tests.unit.broker.authorization.acl_story import Right
from tests.unit.broker.authorization.matrix import (
    BOTH,
    CLUSTER_ACTION,
    CONTROLLER,
    Build,
    Row,
    Things,
    on_cluster,
    row,
)
from tests.unit.broker.context import batch, fetch_request, produce_request


def offsets_request(things: Things, version: int) -> Any:
    m = list_offsets
    return m.ListOffsetsRequest(
        topics=[
            m.ListOffsetsTopic(name=things.topic, partitions=[m.ListOffsetsPartition(timestamp=-1)])
        ]
    )


def transactional_request(things: Things, version: int) -> Any:
    records = batch(b"x", is_transactional=True, producer_id=0, producer_epoch=0, base_sequence=0)
    request = produce_request(things.topic, records)
    request.transactional_id = things.transactional_id
    return request


def produce_by_id_request(things: Things, version: int) -> Any:
    request = produce_request("", batch(b"x"))
    request.topic_data[0].topic_id = things.topic_id
    return request


def fetch_by_id_request(things: Things, version: int) -> Any:
    request = fetch_request("", 0)
    request.topics[0].topic_id = things.topic_id
    return request


def fetch_as_follower_request(things: Things, version: int) -> Any:
    request = fetch_request(things.topic, 0)
    request.replica_id = 1
    return request


def delete_topics_request(things: Things, version: int) -> Any:
    m = delete_topics
    return m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=things.topic)], topic_names=[things.topic], timeout_ms=1_000
    )


def commit_request(things: Things, version: int) -> Any:
    m = offset_commit
    topic = m.OffsetCommitRequestTopic(
        name=things.topic,
        topic_id=things.topic_id,
        partitions=[m.OffsetCommitRequestPartition(committed_offset=1)],
    )
    return m.OffsetCommitRequest(group_id=things.group, topics=[topic])


def offset_fetch_request(things: Things, version: int) -> Any:
    m = offset_fetch
    group = m.OffsetFetchRequestGroup(
        group_id=things.group,
        topics=[
            m.OffsetFetchRequestTopics(
                name=things.topic, topic_id=things.topic_id, partition_indexes=[0]
            )
        ],
    )
    return m.OffsetFetchRequest(
        group_id=things.group,
        topics=[m.OffsetFetchRequestTopic(name=things.topic, partition_indexes=[0])],
        groups=[group],
    )


def offset_fetch_all_request(things: Things, version: int) -> Any:
    m = offset_fetch
    return m.OffsetFetchRequest(
        group_id=things.group,
        topics=None,
        groups=[m.OffsetFetchRequestGroup(group_id=things.group, topics=None)],
    )


def txn_commit_request(things: Things, version: int) -> Any:
    m = txn_offset_commit
    topic = m.TxnOffsetCommitRequestTopic(
        name=things.topic, partitions=[m.TxnOffsetCommitRequestPartition()]
    )
    return m.TxnOffsetCommitRequest(
        transactional_id=things.transactional_id, group_id=things.group, topics=[topic]
    )


def find_request(key_type: int) -> Build:
    def build(things: Things, version: int) -> Any:
        key = {
            0: things.group,
            1: things.transactional_id,
            2: f"{things.group}:{things.topic_id}:0",
        }[key_type]
        return find_coordinator.FindCoordinatorRequest(
            key=key, key_type=key_type, coordinator_keys=[key]
        )

    return build


def named_request(
    module: Any, request: str, resource: str, kind: int, name: Callable[[Things], str]
) -> Build:
    def build(things: Things, version: int) -> Any:
        item = getattr(module, resource)(resource_type=kind, resource_name=name(things))
        return getattr(module, request)(
            resources=[item], **({"validate_only": True} if "alter" in module.__name__ else {})
        )

    return build


def config_rows(
    kind: int, name: Callable[[Things], str], *needs: Right, **others: Any
) -> list[Row]:
    """Describing and altering the configuration of a resource. ``needs`` are those for describing,
    and for altering.
    """
    describing, altering = needs
    return [
        row(
            ApiKey.DESCRIBE_CONFIGS,
            named_request(
                describe_configs, "DescribeConfigsRequest", "DescribeConfigsResource", kind, name
            ),
            describing,
            label=f"type-{kind}",
            sides=BOTH,
            **others,
        ),
        row(
            ApiKey.ALTER_CONFIGS,
            named_request(alter_configs, "AlterConfigsRequest", "AlterConfigsResource", kind, name),
            altering,
            label=f"type-{kind}",
            sides=BOTH,
            **others,
        ),
        row(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            named_request(
                incremental_alter_configs,
                "IncrementalAlterConfigsRequest",
                "AlterConfigsResource",
                kind,
                name,
            ),
            altering,
            label=f"type-{kind}",
            sides=BOTH,
            **others,
        ),
    ]


def acl_filter_request(kind: type[Any], name: str = "nothing") -> Any:
    """Every ACL of the resources of that name."""
    return kind(
        resource_type_filter=1,
        resource_name_filter=name,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def add_partitions_request(things: Things, version: int) -> Any:
    m = add_partitions_to_txn
    topics = [m.AddPartitionsToTxnTopic(name=things.topic, partitions=[0])]
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=things.transactional_id,
        v3_and_below_topics=topics,
        transactions=[
            m.AddPartitionsToTxnTransaction(transactional_id=things.transactional_id, topics=topics)
        ],
    )


def sync_request(things: Things, version: int) -> Any:
    return sync_group.SyncGroupRequest(
        group_id=things.group,
        member_id=things.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )


def elect_request(things: Things, version: int) -> Any:
    return elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic=things.topic, partitions=[0])],
        timeout_ms=1_000,
    )


def markers_request(things: Things, version: int) -> Any:
    m = write_txn_markers
    topics = [m.WritableTxnMarkerTopic(name=things.topic, partition_indexes=[0])]
    return m.WriteTxnMarkersRequest(markers=[m.WritableTxnMarker(producer_id=7, topics=topics)])


def alter_share_request(things: Things, version: int) -> Any:
    m = alter_share_group_offsets
    topics = [
        m.AlterShareGroupOffsetsRequestTopic(
            topic_name=things.topic, partitions=[m.AlterShareGroupOffsetsRequestPartition()]
        )
    ]
    return m.AlterShareGroupOffsetsRequest(group_id="sg", topics=topics)


def share_records_request(things: Things, _version: int) -> Any:
    topics = [share_records.ShareRecordsTopic(name=things.topic, partitions=[0])]
    return share_records.ShareRecordsRequest(group_id=things.group, topics=topics)


def share_offsets_request(things: Things, version: int) -> Any:
    m = describe_share_group_offsets
    topics = [m.DescribeShareGroupOffsetsRequestTopic(topic_name=things.topic, partitions=[0])]
    return m.DescribeShareGroupOffsetsRequest(
        groups=[m.DescribeShareGroupOffsetsRequestGroup(group_id=things.group, topics=topics)]
    )


def share_fetch_request(things: Things, version: int) -> Any:
    m = share_fetch
    topics = [
        m.FetchTopic(topic_id=things.topic_id, partitions=[m.FetchPartition(partition_index=0)])
    ]
    return m.ShareFetchRequest(
        group_id=things.group,
        member_id="m",
        share_session_epoch=0,
        max_bytes=1000,
        max_records=10,
        topics=topics,
    )


def share_acknowledge_request(things: Things, version: int) -> Any:
    m = share_acknowledge
    batches = [m.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])]
    topics = [
        m.AcknowledgeTopic(
            topic_id=things.topic_id,
            partitions=[m.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)],
        )
    ]
    return m.ShareAcknowledgeRequest(
        group_id=things.group, member_id="m", share_session_epoch=1, topics=topics
    )


def share_state_rows() -> list[Row]:
    rows = []
    for key, module, stem in (
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            initialize_share_group_state,
            "InitializeShareGroupState",
        ),
        (ApiKey.READ_SHARE_GROUP_STATE, read_share_group_state, "ReadShareGroupState"),
        (ApiKey.WRITE_SHARE_GROUP_STATE, write_share_group_state, "WriteShareGroupState"),
        (ApiKey.DELETE_SHARE_GROUP_STATE, delete_share_group_state, "DeleteShareGroupState"),
        (
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            read_share_group_state_summary,
            "ReadShareGroupStateSummary",
        ),
    ):

        def build(things: Things, version: int, module: Any = module, stem: str = stem) -> Any:
            request = getattr(module, f"{stem}Request")
            topic_field = next(
                each for each in request.SCHEMA.fields if each.name == "topics"
            ).struct
            partition_field = next(
                each for each in topic_field.SCHEMA.fields if each.name == "partitions"
            ).struct
            return request(
                group_id=things.group,
                topics=[topic_field(topic_id=things.topic_id, partitions=[partition_field()])],
            )

        rows.append(row(key, build, on_cluster(CLUSTER_ACTION)))
    return rows


def rows_between_nodes() -> list[Row]:
    """Return rows for requests of nodes to the controller. The least request of each API suffices."""

    def least(key: ApiKey) -> Row:
        return row(
            key, lambda _, __: request_class(key)(), on_cluster(CLUSTER_ACTION), sides=CONTROLLER
        )

    fetch = row(
        ApiKey.FETCH,
        lambda _, __: fetch_request("t", 0),
        on_cluster(CLUSTER_ACTION),
        sides=CONTROLLER,
        versions=(7, 12),
    )
    return [fetch, *(least(key) for key, api in REGISTRY.items() if api.sides == CONTROLLER)]


def topic_of(things: Things) -> str:
    return things.topic


def group_of(things: Things) -> str:
    return things.group


NODE = "1"
