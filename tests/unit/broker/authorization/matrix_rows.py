"""The rows of the matrix: how each API is asked, and the rights that it takes."""

from log_service.common.access import AclOperation, AclResource
from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.messages import (
    add_offsets_to_txn,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_delete,
    offset_for_leader_epoch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    unregister_broker,
    update_features,
)
from log_service.protocol.messages.maintenance import MaintenanceRequest
from tests.unit.broker.authorization.acl_story import BYSTANDER, GROUP, TOPIC
from tests.unit.broker.authorization.matrix import (
    ALTER,
    ALTER_CONFIGS,
    BOTH,
    CLUSTER_ACTION,
    CONTROLLER,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    IDEMPOTENT_WRITE,
    READ,
    WRITE,
    on_cluster,
    on_group,
    on_id,
    on_topic,
    row,
)
from tests.unit.broker.authorization.matrix_requests import (
    NODE,
    acl_filter_request,
    add_partitions_request,
    alter_share_request,
    commit_request,
    config_rows,
    delete_topics_request,
    elect_request,
    fetch_as_follower_request,
    fetch_by_id_request,
    find_request,
    group_of,
    markers_request,
    named_request,
    offset_fetch_all_request,
    offset_fetch_request,
    offsets_request,
    produce_by_id_request,
    rows_between_nodes,
    share_acknowledge_request,
    share_fetch_request,
    share_offsets_request,
    share_records_request,
    share_state_rows,
    sync_request,
    topic_of,
    transactional_request,
    txn_commit_request,
)
from tests.unit.broker.context import batch, fetch_request, produce_request

ROWS = [
    # Records
    row(
        ApiKey.PRODUCE,
        lambda it, _: produce_request(it.topic, batch(b"x")),
        on_topic(WRITE),
        versions=(3, 9, 12),
        names=True,
    ),
    row(ApiKey.PRODUCE, produce_by_id_request, on_topic(WRITE), versions=(13,), label="by-id"),
    row(
        ApiKey.PRODUCE,
        transactional_request,
        on_id(WRITE),
        on_topic(WRITE),
        versions=(9,),
        label="transactional",
    ),
    row(
        ApiKey.FETCH,
        lambda it, _: fetch_request(it.topic, 0),
        on_topic(READ),
        versions=(4, 12),
        names=True,
    ),
    row(ApiKey.FETCH, fetch_by_id_request, on_topic(READ), versions=(13, 18), label="by-id"),
    row(
        ApiKey.FETCH,
        fetch_as_follower_request,
        on_cluster(CLUSTER_ACTION),
        versions=(12,),
        code=29,
        label="follower",
        names=True,
    ),
    row(
        ApiKey.LIST_OFFSETS,
        offsets_request,
        on_topic(DESCRIBE),
        instead=(on_topic(READ), on_topic(WRITE)),
        names=True,
    ),
    row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda it, _: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=it.topic, partitions=[offset_for_leader_epoch.OffsetForLeaderPartition()]
                )
            ]
        ),
        on_topic(DESCRIBE),
        instead=(on_cluster(CLUSTER_ACTION),),
        names=True,
    ),
    row(
        ApiKey.DELETE_RECORDS,
        lambda it, _: delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name=it.topic, partitions=[delete_records.DeleteRecordsPartition(offset=1)]
                )
            ],
            timeout_ms=1_000,
        ),
        on_topic(DELETE),
        names=True,
    ),
    row(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda it, _: describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=it.topic, partition_indexes=[0])]
        ),
        on_topic(READ),
        names=True,
    ),
    row(
        ApiKey.WRITE_TXN_MARKERS,
        markers_request,
        on_cluster(ALTER),
        instead=(on_cluster(CLUSTER_ACTION),),
    ),
    # Transactions
    row(
        ApiKey.INIT_PRODUCER_ID,
        lambda it, _: init_producer_id.InitProducerIdRequest(
            transactional_id=it.transactional_id, transaction_timeout_ms=1_000
        ),
        on_id(WRITE),
        names=True,
    ),
    row(
        ApiKey.INIT_PRODUCER_ID,
        lambda _, __: init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1_000
        ),
        on_cluster(IDEMPOTENT_WRITE),
        instead=(on_topic(WRITE), on_topic(WRITE, "*"), (2, TOPIC, "other")),
        label="idempotent",
    ),
    row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        add_partitions_request,
        on_id(WRITE),
        on_topic(WRITE),
        versions=(0, 3),
        names=True,
    ),
    row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        add_partitions_request,
        on_cluster(CLUSTER_ACTION),
        versions=(4, 5),
        label="by-broker",
    ),
    row(
        ApiKey.ADD_OFFSETS_TO_TXN,
        lambda it, _: add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=it.transactional_id, group_id=it.group
        ),
        on_id(WRITE),
        on_group(READ),
        names=True,
    ),
    row(
        ApiKey.END_TXN,
        lambda it, _: end_txn.EndTxnRequest(transactional_id=it.transactional_id),
        on_id(WRITE),
        names=True,
    ),
    row(
        ApiKey.TXN_OFFSET_COMMIT,
        txn_commit_request,
        on_id(WRITE),
        on_group(READ),
        on_topic(READ),
        names=True,
    ),
    row(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda it, _: describe_transactions.DescribeTransactionsRequest(
            transactional_ids=[it.transactional_id]
        ),
        on_id(DESCRIBE),
        instead=(on_id(WRITE),),
        names=True,
    ),
    row(
        ApiKey.LIST_TRANSACTIONS,
        lambda _, __: list_transactions.ListTransactionsRequest(),
        on_id(DESCRIBE),
        hidden="x",
    ),
    # What there is
    row(
        ApiKey.API_VERSIONS,
        lambda _, __: api_versions.ApiVersionsRequest(
            client_software_name="a", client_software_version="1"
        ),
        sides=BOTH,
    ),
    row(
        ApiKey.METADATA,
        lambda it, _: metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=it.topic)], allow_auto_topic_creation=False
        ),
        on_topic(DESCRIBE),
        instead=(on_topic(READ),),
        versions=(4, 13),
        names=True,
    ),
    row(
        ApiKey.METADATA,
        lambda it, _: metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=None, topic_id=it.topic_id)]
        ),
        on_topic(DESCRIBE),
        versions=(12, 13),
        label="by-id",
    ),
    row(
        ApiKey.METADATA,
        lambda _, __: metadata.MetadataRequest(topics=None),
        on_topic(DESCRIBE),
        versions=(1, 13),
        hidden="t",
        label="all",
    ),
    row(
        ApiKey.METADATA,
        lambda _, __: metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="new")]),
        on_topic(DESCRIBE, "new"),
        on_topic(CREATE, "new"),
        code=29,
        versions=(13,),
        label="creating",
    ),
    row(ApiKey.DESCRIBE_CLUSTER, lambda _, __: describe_cluster.DescribeClusterRequest()),
    row(
        ApiKey.DESCRIBE_CLUSTER,
        lambda _, __: describe_cluster.DescribeClusterRequest(endpoint_type=2),
        on_cluster(ALTER),
        sides=CONTROLLER,
        versions=(1, 2),
        label="controllers",
    ),
    row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda it, _: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=it.topic)]
        ),
        on_topic(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda _, __: describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[]),
        on_topic(DESCRIBE),
        hidden="t",
        label="all",
    ),
    row(
        ApiKey.DESCRIBE_QUORUM,
        lambda _, __: describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.RequestTopicData(
                    topic_name="__cluster_metadata",
                    partitions=[describe_quorum.RequestPartitionData()],
                )
            ]
        ),
        on_cluster(DESCRIBE),
        instead=(on_cluster(ALTER),),
        sides=BOTH,
    ),
    row(
        ApiKey.DESCRIBE_LOG_DIRS,
        lambda _, __: describe_log_dirs.DescribeLogDirsRequest(topics=None),
        on_cluster(DESCRIBE),
        versions=(3, 5),
    ),
    row(
        ApiKey.DESCRIBE_LOG_DIRS,
        lambda _, __: describe_log_dirs.DescribeLogDirsRequest(topics=None),
        on_cluster(DESCRIBE),
        versions=(1, 2),
        hidden="t",
        label="without-error",
    ),
    # Groups
    row(
        ApiKey.FIND_COORDINATOR,
        find_request(0),
        on_group(DESCRIBE),
        instead=(on_group(READ),),
        names=True,
        label="group",
    ),
    row(
        ApiKey.FIND_COORDINATOR,
        find_request(1),
        on_id(DESCRIBE),
        versions=(1, 6),
        names=True,
        label="transaction",
    ),
    row(
        ApiKey.FIND_COORDINATOR,
        find_request(2),
        on_cluster(CLUSTER_ACTION),
        versions=(6,),
        label="share",
    ),
    row(
        ApiKey.JOIN_GROUP,
        lambda it, _: join_group.JoinGroupRequest(
            group_id=it.group,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol(name="range")],
        ),
        on_group(READ),
        names=True,
    ),
    row(ApiKey.SYNC_GROUP, sync_request, on_group(READ), names=True),
    row(
        ApiKey.HEARTBEAT,
        lambda it, _: heartbeat.HeartbeatRequest(group_id=it.group, member_id=it.member_id),
        on_group(READ),
        names=True,
    ),
    row(
        ApiKey.LEAVE_GROUP,
        lambda it, _: leave_group.LeaveGroupRequest(
            group_id=it.group, member_id="m", members=[leave_group.MemberIdentity(member_id="m")]
        ),
        on_group(READ),
        names=True,
    ),
    row(
        ApiKey.OFFSET_COMMIT,
        commit_request,
        on_group(READ),
        on_topic(READ),
        versions=(2, 9),
        names=True,
    ),
    row(
        ApiKey.OFFSET_COMMIT,
        commit_request,
        on_group(READ),
        on_topic(READ),
        versions=(10,),
        label="by-id",
    ),
    row(
        ApiKey.OFFSET_FETCH,
        offset_fetch_request,
        on_group(DESCRIBE),
        on_topic(DESCRIBE),
        versions=(1, 7, 9),
        names=True,
    ),
    row(
        ApiKey.OFFSET_FETCH,
        offset_fetch_request,
        on_group(DESCRIBE),
        on_topic(DESCRIBE),
        versions=(10,),
        label="by-id",
    ),
    row(
        ApiKey.OFFSET_FETCH,
        offset_fetch_all_request,
        on_group(DESCRIBE),
        versions=(2, 10),
        label="all",
    ),
    row(
        ApiKey.OFFSET_DELETE,
        lambda it, _: offset_delete.OffsetDeleteRequest(
            group_id=it.group,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name=it.topic, partitions=[offset_delete.OffsetDeleteRequestPartition()]
                )
            ],
        ),
        on_group(DELETE),
        on_topic(READ),
        names=True,
    ),
    row(
        ApiKey.LIST_GROUPS,
        lambda _, __: list_groups.ListGroupsRequest(),
        on_group(DESCRIBE),
        instead=(on_cluster(DESCRIBE),),
        hidden="g",
    ),
    row(
        ApiKey.DESCRIBE_GROUPS,
        lambda it, _: describe_groups.DescribeGroupsRequest(groups=[it.group]),
        on_group(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.DELETE_GROUPS,
        lambda it, _: delete_groups.DeleteGroupsRequest(groups_names=[it.group]),
        on_group(DELETE),
        names=True,
    ),
    row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda it, _: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="cg",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=[it.topic],
            topic_partitions=[],
        ),
        (READ, GROUP, "cg"),
        on_topic(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        lambda it, _: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[it.group]),
        on_group(DESCRIBE),
        names=True,
    ),
    # Share groups
    row(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        lambda it, _: share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id="sg", member_id="m", member_epoch=0, subscribed_topic_names=[it.topic]
        ),
        (READ, GROUP, "sg"),
        on_topic(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.SHARE_GROUP_DESCRIBE,
        lambda it, _: share_group_describe.ShareGroupDescribeRequest(group_ids=[it.group]),
        on_group(DESCRIBE),
        names=True,
    ),
    # Streams groups
    row(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        lambda it, _: streams_group_heartbeat.StreamsGroupHeartbeatRequest(
            group_id="stg",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=30_000,
            topology=streams_group_heartbeat.Topology(
                subtopologies=[
                    streams_group_heartbeat.Subtopology(
                        subtopology_id="0", source_topics=[it.topic]
                    )
                ]
            ),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        ),
        (READ, GROUP, "stg"),
        on_topic(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        lambda it, _: streams_group_describe.StreamsGroupDescribeRequest(group_ids=[it.group]),
        on_group(DESCRIBE),
        names=True,
    ),
    row(ApiKey.SHARE_FETCH, share_fetch_request, on_group(READ), on_topic(READ)),
    row(ApiKey.SHARE_ACKNOWLEDGE, share_acknowledge_request, on_group(READ), label="group"),
    row(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        share_offsets_request,
        on_group(DESCRIBE),
        on_topic(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        alter_share_request,
        (READ, GROUP, "sg"),
        on_topic(READ),
        names=True,
    ),
    row(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        lambda it, _: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
            group_id="sg",
            topics=[
                delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=it.topic)
            ],
        ),
        (DELETE, GROUP, "sg"),
        label="group",
        names=True,
    ),
    *share_state_rows(),
    # Topics
    row(
        ApiKey.CREATE_TOPICS,
        lambda _, __: create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
            ],
            timeout_ms=1_000,
        ),
        on_topic(CREATE, "new"),
        instead=(on_cluster(CREATE),),
        sides=BOTH,
    ),
    row(
        ApiKey.DELETE_TOPICS,
        delete_topics_request,
        on_topic(DELETE),
        instead=(on_cluster(DELETE),),
        sides=BOTH,
        names=True,
    ),
    row(
        ApiKey.CREATE_PARTITIONS,
        lambda it, _: create_partitions.CreatePartitionsRequest(
            topics=[
                create_partitions.CreatePartitionsTopic(name=it.topic, count=2, assignments=None)
            ],
            timeout_ms=1_000,
        ),
        on_topic(ALTER),
        sides=BOTH,
        names=True,
    ),
    row(ApiKey.ELECT_LEADERS, elect_request, on_cluster(ALTER), sides=BOTH),
    row(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda _, __: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=1_000
        ),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        lambda _, __: list_partition_reassignments.ListPartitionReassignmentsRequest(
            topics=None, timeout_ms=1_000
        ),
        on_cluster(DESCRIBE),
        sides=BOTH,
    ),
    row(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        lambda it, _: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(
                            name=it.topic, partitions=[0]
                        )
                    ],
                )
            ]
        ),
        on_cluster(ALTER),
        names=True,
    ),
    # Configuration and the cluster
    *config_rows(2, topic_of, on_topic(DESCRIBE_CONFIGS), on_topic(ALTER_CONFIGS), names=True),
    *config_rows(32, group_of, on_group(DESCRIBE_CONFIGS), on_group(ALTER_CONFIGS), names=True),
    *config_rows(4, lambda _: NODE, on_cluster(DESCRIBE_CONFIGS), on_cluster(ALTER_CONFIGS)),
    *config_rows(16, lambda _: "metrics", on_cluster(DESCRIBE_CONFIGS), on_cluster(ALTER_CONFIGS)),
    row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        named_request(
            incremental_alter_configs,
            "IncrementalAlterConfigsRequest",
            "AlterConfigsResource",
            8,
            lambda _: NODE,
        ),
        on_cluster(ALTER_CONFIGS),
        label="loggers",
    ),
    row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        named_request(
            incremental_alter_configs,
            "IncrementalAlterConfigsRequest",
            "AlterConfigsResource",
            8,
            lambda _: NODE,
        ),
        on_cluster(CLUSTER_ACTION),
        sides=CONTROLLER,
        label="loggers-of-a-controller",
    ),
    row(
        ApiKey.LIST_CONFIG_RESOURCES,
        lambda _, __: list_config_resources.ListConfigResourcesRequest(),
        on_cluster(DESCRIBE_CONFIGS),
    ),
    row(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        lambda _, __: describe_client_quotas.DescribeClientQuotasRequest(),
        on_cluster(DESCRIBE_CONFIGS),
        instead=(on_cluster(ALTER_CONFIGS),),
    ),
    row(
        ApiKey.ALTER_CLIENT_QUOTAS,
        lambda _, __: alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.RequestEntryData(
                    entity=[
                        alter_client_quotas.RequestEntityData(entity_type="user", entity_name="u")
                    ],
                    ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1e6)],
                )
            ]
        ),
        on_cluster(ALTER_CONFIGS),
        sides=BOTH,
    ),
    row(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        lambda _, __: request_class(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)(),
    ),
    row(ApiKey.PUSH_TELEMETRY, lambda _, __: request_class(ApiKey.PUSH_TELEMETRY)()),
    row(
        ApiKey.DESCRIBE_ACLS,
        lambda _, __: acl_filter_request(describe_acls.DescribeAclsRequest),
        on_cluster(DESCRIBE),
        instead=(on_cluster(ALTER),),
        sides=BOTH,
    ),
    row(
        ApiKey.CREATE_ACLS,
        lambda _, __: create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(
                    resource_type=2,
                    resource_name="n",
                    principal="User:u",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.DELETE_ACLS,
        lambda _, __: delete_acls.DeleteAclsRequest(
            filters=[acl_filter_request(delete_acls.DeleteAclsFilter, BYSTANDER)]
        ),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        lambda _, __: request_class(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)(users=None),
        on_cluster(DESCRIBE),
        instead=(on_cluster(ALTER),),
    ),
    row(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        lambda _, __: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            upsertions=[
                alter_user_scram_credentials.ScramCredentialUpsertion(
                    name="u",
                    mechanism=1,
                    iterations=4096,
                    salt=b"salt-of-u",
                    salted_password=bytes(32),
                )
            ]
        ),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.CREATE_DELEGATION_TOKEN,
        lambda _, __: request_class(ApiKey.CREATE_DELEGATION_TOKEN)(
            owner_principal_type="User", owner_principal_name="other"
        ),
        (AclOperation.CREATE_TOKENS, AclResource.USER, "User:other"),
        sides=BOTH,
        versions=(3,),
        code=65,
    ),
    row(
        ApiKey.RENEW_DELEGATION_TOKEN,
        lambda _, __: request_class(ApiKey.RENEW_DELEGATION_TOKEN)(),
        sides=BOTH,
    ),
    row(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        lambda _, __: request_class(ApiKey.EXPIRE_DELEGATION_TOKEN)(),
        sides=BOTH,
    ),
    row(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        lambda _, __: request_class(ApiKey.DESCRIBE_DELEGATION_TOKEN)(owners=None),
        instead=(
            (DESCRIBE, AclResource.DELEGATION_TOKEN, "t"),
            (AclOperation.DESCRIBE_TOKENS, AclResource.USER, "User:other"),
        ),
    ),
    row(
        ApiKey.SASL_HANDSHAKE,
        lambda _, __: request_class(ApiKey.SASL_HANDSHAKE)(mechanism="PLAIN"),
        sides=BOTH,
    ),
    row(
        ApiKey.SASL_AUTHENTICATE,
        lambda _, __: request_class(ApiKey.SASL_AUTHENTICATE)(),
        sides=BOTH,
    ),
    row(
        ApiKey.UPDATE_FEATURES,
        lambda _, __: update_features.UpdateFeaturesRequest(
            feature_updates=[
                update_features.FeatureUpdateKey(
                    feature="share.version", max_version_level=0, upgrade_type=2
                )
            ]
        ),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.UNREGISTER_BROKER,
        lambda _, __: unregister_broker.UnregisterBrokerRequest(broker_id=9),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.ADD_RAFT_VOTER,
        lambda _, __: request_class(ApiKey.ADD_RAFT_VOTER)(timeout_ms=100),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    row(
        ApiKey.REMOVE_RAFT_VOTER,
        lambda _, __: request_class(ApiKey.REMOVE_RAFT_VOTER)(),
        on_cluster(ALTER),
        sides=BOTH,
    ),
    *rows_between_nodes(),
    # Ours
    row(
        ApiKey.TIDELOG_MAINTENANCE,
        lambda it, _: MaintenanceRequest(topics=[it.topic]),
        on_cluster(ALTER),
        instead=(on_cluster(CLUSTER_ACTION), on_topic(ALTER)),
    ),
    row(
        ApiKey.TIDELOG_SHARE_RECORDS,
        share_records_request,
        on_group(DESCRIBE),
        on_topic(DESCRIBE),
        names=True,
    ),
    row(
        ApiKey.TIDELOG_MAINTENANCE,
        lambda _, __: MaintenanceRequest(topics=None),
        on_cluster(ALTER),
        instead=(on_cluster(CLUSTER_ACTION), on_topic(ALTER)),
        label="of all",
    ),
]
