"""Request handlers, one module per API or family of APIs, for all of its versions.

The docstring of a module describes the behaviour and the versions of its APIs. ``broker.registry``
names each handler.

Records:

- ``produce``, ``fetch``: Produce and Fetch. ``list_offsets``: ListOffsets.
- ``offset_for_leader_epoch``: OffsetForLeaderEpoch. ``delete_records``: DeleteRecords.
- ``nearest_replica``: the replica in a consumer's rack, for Fetch. Handles no API.

Groups and transactions:

- ``find_coordinator``: FindCoordinator. ``groups``: groups and their offsets. ``share``: share
  groups.
- ``producers``: InitProducerId, DescribeProducers. ``transactions``: the transaction coordinator's
  APIs. ``write_txn_markers``: WriteTxnMarkers.

Topics, cluster and configuration:

- ``api_versions``: ApiVersions. ``metadata``: Metadata. ``cluster``: the cluster, its features and
  brokers. ``describe_topic_partitions``: DescribeTopicPartitions.
- ``topics``: create, delete and grow topics. ``placement``: elections and reassignments.
  ``log_dirs``: log directories. ``maintenance``: retention and compaction on request.
- ``configs``: configuration. ``client_quotas``: quotas of clients. ``telemetry``: metrics that
  clients push.

Security:

- ``acls``: access rules. ``scram_users``: SCRAM credentials. ``delegation_tokens``: tokens.
  ``sasl``: requests of SASL logins when no login is due.

Other nodes:

- ``envelope``: forwarded requests. ``controller_requests``: requests of nodes to the active
  controller. ``quorum``: describes and changes the quorum. ``raft``: requests between its replicas.
"""
