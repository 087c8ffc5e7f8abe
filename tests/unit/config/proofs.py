"""Each configuration key that acts has a proof: a file below ``tests``, and a test in it."""

from pathlib import Path

from log_service.config.schema_registry_keys import REGISTRY_TLS_KEYS

TESTS = Path(__file__).parent.parent.parent
LOGS, BROKERS, RESOURCES = (
    f"unit/broker/test_effects_on_{what}.py" for what in ("logs", "brokers", "resources")
)
CONSUMER_GROUPS = "unit/coordinator/test_consumer_group_keys.py"
LISTENERS = "unit/broker/test_listeners.py"
FILE = "unit/config/test_server_properties.py"
QUORUM = "unit/config/test_quorum.py"
QUORUM_KEYS = "unit/raft/test_quorum_keys.py"
TOLD = (BROKERS, "test_node_id_rack_and_cluster_id_are_told")
ADDRESSES = (LISTENERS, "test_a_client_is_told_the_addresses_of_the_listener_it_came_through")
LIVE_CLEANER = (RESOURCES, "test_the_cleaner_is_told_at_once_what_changes")
DIRECTORIES = (BROKERS, "test_log_dirs_metadata_log_dir_and_log_dir_hold_the_files")
KEPT_FROM_CLEANING = (RESOURCES, "test_what_keeps_the_cleaner_from_cleaning")
COUNTS = (BROKERS, "test_limits_of_connections")
OFFSETS_TOPIC = (BROKERS, "test_the_topic_of_groups_is_made_as_configured")
SHARE_GROUPS = "unit/coordinator/test_share_groups.py"
STREAMS_GROUPS = "unit/coordinator/test_streams_group_keys.py"
SHARE_STATES = "unit/broker/handlers/share/test_states.py"
SHARE_STATES_TOPIC = (SHARE_STATES, "test_the_topic_of_share_states_is_made_as_configured")
TRANSACTIONS_TOPIC = (
    "unit/broker/transactions/test_transactions.py",
    "test_the_topic_of_transactions_is_made_as_configured",
)
TRANSACTION_TIMES = (
    "unit/coordinator/transaction/test_service.py",
    "test_times_of_transactions_are_those_of_the_file",
)
REPLICATION = "unit/replication/test_replication_keys.py"
THROTTLES = "unit/replication/test_throttles.py"
MEMBERSHIP = (
    "unit/broker/test_membership_of_a_broker.py",
    "test_keys_of_membership_and_elections_reach_their_view",
)
SHARE_BOUNDS = (
    "unit/broker/share/test_group_settings.py",
    "test_the_brokers_keys_are_the_defaults_and_the_bounds_of_groups",
)
QUOTAS = "unit/broker/test_client_quotas.py"
DEATHS = "unit/broker/test_cluster_deaths.py"
CHECKPOINTS = (LOGS, "test_checkpoints_are_written_in_their_intervals")
VERIFICATION = "unit/broker/handlers/produce/test_transactional.py"
LOGINS = "unit/broker/logins/test_login.py"
STORES = "unit/security/tls/test_stores.py"
CERTIFICATES = "unit/broker/test_certificates.py"
HANDSHAKES = "unit/security/tls/test_handshakes.py"
KEY_STORES = (STORES, "test_a_key_is_read_from_every_kind_of_store")
TRUST_STORES = (STORES, "test_authorities_are_read_from_every_kind_of_store")
AUTHORIZER = ("unit/broker/authorization/test_visibility.py", "test_super_users_and_open_clusters")
OAUTH = "unit/security/test_oauth.py"
OAUTH_TIMES = (OAUTH, "test_times_of_fetching")
OAUTH_ENDPOINT = (
    "unit/broker/logins/test_cluster_logins.py",
    "test_token_comes_from_an_endpoint_for_the_id_and_secret_of_this_node",
)
TOKENS = "unit/broker/logins/test_tokens.py"
AUDIT = "unit/broker/authorization/test_audit_log.py"
SCHEMA_REGISTRY = "unit/config/test_schema_registry.py"
REGISTERED_SCHEMAS = (SCHEMA_REGISTRY, "test_topics_turn_validation_on_by_confluents_names")
REGISTRY_LOGIN = (SCHEMA_REGISTRY, "test_urls_and_login")
REGISTRY_TLS = (SCHEMA_REGISTRY, "test_tls_of_the_registry_has_keys_of_its_own")
PROOFS = {
    "confluent.basic.auth.credentials.source": (
        SCHEMA_REGISTRY,
        "test_what_cannot_be_is_refused_without_its_secrets",
    ),
    "confluent.basic.auth.user.info": REGISTRY_LOGIN,
    "confluent.schema.registry.url": REGISTRY_LOGIN,
    **{key.name: REGISTRY_TLS for key in REGISTRY_TLS_KEYS},
    "allow.everyone.if.no.acl.found": AUTHORIZER,
    "audit.log.allowed.enable": (AUDIT, "test_what_is_allowed_is_a_line_where_that_is_asked_for"),
    "audit.log.max.bytes": (AUDIT, "test_the_file_rolls_by_size_and_so_many_are_kept"),
    "audit.log.max.files": (AUDIT, "test_the_file_rolls_by_size_and_so_many_are_kept"),
    "audit.log.path": (AUDIT, "test_what_is_denied_is_a_line_of_the_file_as_kafka_writes_it"),
    "audit.log.topic": (AUDIT, "test_what_is_denied_is_a_record_of_the_topic"),
    "authorizer.class.name": AUTHORIZER,
    "early.start.listeners": (FILE, "test_what_cannot_be_honoured_is_refused_by_name"),
    "super.users": AUTHORIZER,
    "ssl.allow.dn.changes": (
        CERTIFICATES,
        "test_another_name_or_fewer_hosts_are_refused_unless_they_are_allowed",
    ),
    "ssl.allow.san.changes": (
        CERTIFICATES,
        "test_another_name_or_fewer_hosts_are_refused_unless_they_are_allowed",
    ),
    "ssl.cipher.suites": (HANDSHAKES, "test_only_the_suites_that_are_named_are_spoken"),
    "ssl.client.auth": (HANDSHAKES, "test_whether_clients_show_certificates"),
    "ssl.enabled.protocols": (HANDSHAKES, "test_only_the_protocols_that_are_named_are_spoken"),
    "ssl.endpoint.identification.algorithm": (
        HANDSHAKES,
        "test_the_name_in_a_certificate_is_compared_with_the_host_unless_that_is_off",
    ),
    "ssl.key.password": KEY_STORES,
    "ssl.keystore.certificate.chain": KEY_STORES,
    "ssl.keystore.key": KEY_STORES,
    "ssl.keystore.location": KEY_STORES,
    "ssl.keystore.password": KEY_STORES,
    "ssl.keystore.type": KEY_STORES,
    "ssl.principal.mapping.rules": (
        HANDSHAKES,
        "test_rules_make_a_user_of_the_name_in_a_certificate",
    ),
    "ssl.truststore.certificates": TRUST_STORES,
    "ssl.truststore.location": TRUST_STORES,
    "ssl.truststore.password": TRUST_STORES,
    "ssl.truststore.type": TRUST_STORES,
    "delegation.token.expiry.check.interval.ms": (TOKENS, "test_expired_tokens_are_removed"),
    "delegation.token.expiry.time.ms": (TOKENS, "test_times_of_a_token"),
    "delegation.token.max.lifetime.ms": (TOKENS, "test_times_of_a_token"),
    "delegation.token.secret.key": (TOKENS, "test_owner_makes_a_token_and_logs_in_by_it"),
    "sasl.oauthbearer.allowed.algorithms": (OAUTH, "test_algorithms_that_are_allowed"),
    "sasl.oauthbearer.allowed.urls": (OAUTH, "test_url_has_to_be_allowed"),
    "sasl.oauthbearer.client.credentials.client.id": OAUTH_ENDPOINT,
    "sasl.oauthbearer.client.credentials.client.secret": OAUTH_ENDPOINT,
    "sasl.oauthbearer.clock.skew.seconds": (OAUTH, "test_skew_of_clocks"),
    "sasl.oauthbearer.expected.audience": (OAUTH, "test_claims_that_the_keys_ask_for"),
    "sasl.oauthbearer.expected.issuer": (OAUTH, "test_claims_that_the_keys_ask_for"),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": OAUTH_TIMES,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": OAUTH_TIMES,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": OAUTH_TIMES,
    "sasl.oauthbearer.jwks.endpoint.url": (
        OAUTH,
        "test_keys_that_cannot_be_fetched_stop_the_start",
    ),
    "sasl.oauthbearer.jwt.validator.class": (OAUTH, "test_java_classes"),
    "sasl.oauthbearer.scope": OAUTH_ENDPOINT,
    "sasl.oauthbearer.scope.claim.name": (OAUTH, "test_names_of_claims"),
    "sasl.oauthbearer.sub.claim.name": (OAUTH, "test_names_of_claims"),
    "sasl.oauthbearer.token.endpoint.url": OAUTH_ENDPOINT,
    "sasl.oauthbearer.unsecured.tokens.allowed": (
        OAUTH,
        "test_tokens_without_signatures_only_where_they_are_asked_for",
    ),
    "sasl.server.callback.handler.class": (OAUTH, "test_java_classes"),
    "connection.failed.authentication.delay.ms": (
        LOGINS,
        "test_refusal_is_told_after_the_delay_and_the_connection_closed",
    ),
    "connections.max.reauth.ms": (
        LOGINS,
        "test_login_that_ends_is_repeated_or_costs_the_connection",
    ),
    "sasl.enabled.mechanisms": (LOGINS, "test_unknown_mechanism_is_refused_after_the_delay"),
    "sasl.jaas.config": (
        LOGINS,
        "test_client_with_the_right_password_is_served_and_one_without_is_not",
    ),
    "sasl.mechanism.controller.protocol": (
        "unit/broker/logins/test_cluster_logins.py",
        "test_nodes_log_in_to_controllers_by_their_mechanism",
    ),
    "sasl.mechanism.inter.broker.protocol": (
        "unit/broker/logins/test_cluster_logins.py",
        "test_nodes_log_in_to_brokers_by_their_mechanism",
    ),
    "sasl.server.max.receive.size": (
        LOGINS,
        "test_frame_before_the_login_is_bound_and_after_it_is_not",
    ),
    "add.partitions.to.txn.retry.backoff.max.ms": (
        VERIFICATION,
        "test_how_often_and_for_how_long_it_is_asked_again",
    ),
    "add.partitions.to.txn.retry.backoff.ms": (
        VERIFICATION,
        "test_how_often_and_for_how_long_it_is_asked_again",
    ),
    "transaction.partition.verification.enable": (
        VERIFICATION,
        "test_without_verification_nothing_is_asked",
    ),
    "auto.leader.rebalance.enable": MEMBERSHIP,
    "initial.broker.registration.timeout.ms": MEMBERSHIP,
    "leader.imbalance.check.interval.seconds": MEMBERSHIP,
    "log.dir.failure.timeout.ms": MEMBERSHIP,
    "unclean.leader.election.interval.ms": MEMBERSHIP,
    **{
        f"group.share.{bound}{name}": SHARE_BOUNDS
        for name in (
            "delivery.count.limit",
            "record.lock.duration.ms",
            "partition.max.record.locks",
        )
        for bound in ("", "min.", "max.")
    },
    **{
        f"group.streams.{bound}{name}": (STREAMS_GROUPS, test)
        for name, test in (
            (
                "assignment.interval.ms",
                "test_assignment_interval_is_the_files_the_brokers_or_the_groups_own_within_its_bounds",
            ),
            (
                "heartbeat.interval.ms",
                "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
            ),
            (
                "session.timeout.ms",
                "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
            ),
        )
        for bound in ("", "min.", "max.")
    },
    "group.streams.initial.rebalance.delay.ms": (
        STREAMS_GROUPS,
        "test_initial_delay_is_the_files_or_the_groups_own",
    ),
    "group.streams.max.size": (STREAMS_GROUPS, "test_size_is_the_files"),
    "group.streams.max.standby.replicas": (
        STREAMS_GROUPS,
        "test_standby_tasks_are_as_many_as_the_file_or_the_group_says_up_to_the_most",
    ),
    "group.streams.num.standby.replicas": (
        STREAMS_GROUPS,
        "test_standby_tasks_are_as_many_as_the_file_or_the_group_says_up_to_the_most",
    ),
    "group.share.max.share.sessions": SHARE_BOUNDS,
    "advertised.listeners": ADDRESSES,
    "auto.create.topics.enable": (BROKERS, "test_auto_create_topics_enable_and_num_partitions"),
    "auto.create.topics.declarations": (
        "unit/broker/topic_creation/test_automatic.py",
        "test_a_declared_topic_that_a_client_asks_for_first_is_created_as_it_is_declared",
    ),
    "broker.heartbeat.interval.ms": (BROKERS, "test_a_broker_that_is_not_heard_of_is_fenced"),
    "broker.id": (FILE, "test_broker_id_is_an_older_name_of_node_id"),
    "broker.rack": TOLD,
    "broker.session.timeout.ms": (BROKERS, "test_a_broker_that_is_not_heard_of_is_fenced"),
    "cluster.id": TOLD,
    "compression.gzip.level": (LOGS, "test_levels_of_compression_act_in_the_file_and_live"),
    "compression.lz4.level": (LOGS, "test_levels_of_compression_act_in_the_file_and_live"),
    "compression.zstd.level": (LOGS, "test_levels_of_compression_act_in_the_file_and_live"),
    "connections.max.idle.ms": (BROKERS, "test_connections_max_idle_ms"),
    "controller.listener.names": (
        LISTENERS,
        "test_the_controllers_listener_answers_admin_clients_alone",
    ),
    "controller.quorum.auto.join.enable": (
        "unit/broker/test_cluster_voters.py",
        "test_a_controller_joins_by_itself_and_again_with_a_new_disk",
    ),
    "controller.quorum.bootstrap.servers": (
        QUORUM,
        "test_servers_whose_ids_are_not_known_are_numbered_as_kafka_numbers_them",
    ),
    "controller.quorum.election.backoff.max.ms": (
        QUORUM_KEYS,
        "test_a_later_successor_stands_for_election_after_its_share_of_the_backoff",
    ),
    "controller.quorum.election.timeout.ms": (
        QUORUM_KEYS,
        "test_the_first_election_begins_when_its_timeout_is_over",
    ),
    "controller.quorum.fetch.max.bytes": (
        QUORUM_KEYS,
        "test_a_fetch_of_the_log_asks_for_no_more_than_the_file_says",
    ),
    "controller.quorum.fetch.snapshot.max.bytes": (
        QUORUM_KEYS,
        "test_a_fetch_of_a_snapshot_asks_for_no_more_than_the_file_says",
    ),
    "controller.quorum.fetch.timeout.ms": (
        QUORUM_KEYS,
        "test_a_silent_leader_is_followed_until_the_fetch_timeout_is_over",
    ),
    "controller.quorum.request.timeout.ms": (
        QUORUM_KEYS,
        "test_a_request_is_given_up_when_its_timeout_is_over",
    ),
    "controller.quorum.retry.backoff.ms": (
        QUORUM_KEYS,
        "test_a_peer_that_refuses_is_left_alone_for_the_retry_backoff",
    ),
    "controller.quorum.voters": (QUORUM, "test_voters_are_read_in_the_order_of_their_ids"),
    "controller.quota.window.num": (QUOTAS, "test_windows_of_mutations"),
    "controller.quota.window.size.seconds": (QUOTAS, "test_windows_of_mutations"),
    "cordoned.log.dirs": (
        BROKERS,
        "test_cordoned_log_dirs_take_no_new_partitions_from_the_file_and_live",
    ),
    "default.replication.factor": (BROKERS, "test_default_replication_factor"),
    "delete.topic.enable": (
        "unit/broker/handlers/test_admin_apis.py",
        "test_topics_are_not_deleted_where_that_is_switched_off",
    ),
    "fetch.max.bytes": (BROKERS, "test_fetch_max_bytes"),
    "group.consumer.assignment.interval.ms": (
        CONSUMER_GROUPS,
        "test_assignment_interval_is_the_files_the_brokers_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.assignors": (CONSUMER_GROUPS, "test_size_and_assignors_are_the_files"),
    "group.consumer.heartbeat.interval.ms": (
        CONSUMER_GROUPS,
        "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.max.assignment.interval.ms": (
        CONSUMER_GROUPS,
        "test_assignment_interval_is_the_files_the_brokers_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.max.heartbeat.interval.ms": (
        CONSUMER_GROUPS,
        "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.max.session.timeout.ms": (
        CONSUMER_GROUPS,
        "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.max.size": (CONSUMER_GROUPS, "test_size_and_assignors_are_the_files"),
    "group.consumer.min.assignment.interval.ms": (
        CONSUMER_GROUPS,
        "test_assignment_interval_is_the_files_the_brokers_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.min.heartbeat.interval.ms": (
        CONSUMER_GROUPS,
        "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.min.session.timeout.ms": (
        CONSUMER_GROUPS,
        "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.consumer.migration.policy": (
        CONSUMER_GROUPS,
        "test_migration_policy_is_the_files_whatever_its_case",
    ),
    "group.consumer.regex.refresh.interval.ms": (
        CONSUMER_GROUPS,
        "test_regular_expressions_are_matched_anew_in_the_files_interval",
    ),
    "group.consumer.session.timeout.ms": (
        CONSUMER_GROUPS,
        "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.coordinator.rebalance.protocols": (CONSUMER_GROUPS, "test_protocol_can_be_left_out"),
    "group.initial.rebalance.delay.ms": (BROKERS, "test_group_initial_rebalance_delay_ms"),
    "group.max.session.timeout.ms": (BROKERS, "test_session_timeouts_of_members_are_bounded"),
    "group.max.size": (BROKERS, "test_group_max_size"),
    "group.min.session.timeout.ms": (BROKERS, "test_session_timeouts_of_members_are_bounded"),
    "inter.broker.listener.name": (
        "unit/config/test_listeners.py",
        "test_a_listener_that_cannot_be_is_refused_by_name",
    ),
    "listener.security.protocol.map": (
        "unit/config/test_listeners.py",
        "test_a_listener_that_cannot_be_is_refused_by_name",
    ),
    "listeners": ADDRESSES,
    "log.cleaner.backoff.ms": KEPT_FROM_CLEANING,
    "log.cleaner.dedupe.buffer.size": LIVE_CLEANER,
    "log.cleaner.delete.retention.ms": (
        RESOURCES,
        "test_log_cleaner_delete_retention_ms_reaches_logs_from_the_file_and_live",
    ),
    "log.cleaner.enable": KEPT_FROM_CLEANING,
    "log.cleaner.io.buffer.load.factor": LIVE_CLEANER,
    "log.cleaner.io.buffer.size": LIVE_CLEANER,
    "log.cleaner.io.max.bytes.per.second": LIVE_CLEANER,
    "log.cleaner.max.compaction.lag.ms": (
        RESOURCES,
        "test_the_longest_lag_has_a_log_cleaned_that_is_not_dirty_enough",
    ),
    "log.cleaner.min.cleanable.ratio": KEPT_FROM_CLEANING,
    "log.cleaner.min.compaction.lag.ms": KEPT_FROM_CLEANING,
    "log.cleaner.threads": KEPT_FROM_CLEANING,
    "log.dir": (FILE, "test_log_dir_holds_where_log_dirs_says_nothing"),
    "log.dirs": DIRECTORIES,
    "log.flush.offset.checkpoint.interval.ms": CHECKPOINTS,
    "log.flush.scheduler.interval.ms": (LOGS, "test_set_in_the_file"),
    "log.flush.start.offset.checkpoint.interval.ms": CHECKPOINTS,
    "log.initial.task.delay.ms": (
        LOGS,
        "test_the_upkeep_begins_after_its_delay_and_comes_in_its_intervals",
    ),
    "log.retention.check.interval.ms": (
        LOGS,
        "test_the_upkeep_begins_after_its_delay_and_comes_in_its_intervals",
    ),
    "log.roll.hours": (LOGS, "test_hours_of_rolling"),
    "log.roll.jitter.hours": (LOGS, "test_hours_of_jitter"),
    "max.connection.creation.rate": (BROKERS, "test_rates_of_connections_change_live"),
    "max.connections": COUNTS,
    "max.connections.per.ip": COUNTS,
    "max.connections.per.ip.overrides": COUNTS,
    "max.incremental.fetch.session.cache.slots": (
        BROKERS,
        "test_max_incremental_fetch_session_cache_slots",
    ),
    "max.request.partition.size.limit": (BROKERS, "test_max_request_partition_size_limit"),
    "metadata.log.dir": DIRECTORIES,
    "metadata.log.max.record.bytes.between.snapshots": (BROKERS, "test_snapshots_of_the_metadata"),
    "metadata.log.max.snapshot.interval.ms": (BROKERS, "test_snapshots_of_the_metadata"),
    "metadata.log.segment.bytes": (
        RESOURCES,
        "test_metadata_log_segment_bytes_reaches_the_metadata_log",
    ),
    "metadata.log.segment.ms": (BROKERS, "test_the_metadata_log_rolls_at_its_age"),
    "metadata.max.idle.interval.ms": (
        "unit/broker/test_cluster_quorum.py",
        "test_an_idle_leader_writes_a_record_in_each_interval",
    ),
    "telemetry.max.bytes": ("unit/broker/test_client_telemetry.py", "test_telemetry_max_bytes"),
    "metrics.listener": (RESOURCES, "test_the_metrics_page_is_where_metrics_listener_says"),
    "node.death.grace.ms": (DEATHS, "test_without_a_grace_the_session_alone_tells"),
    "node.id": TOLD,
    "num.io.threads": (BROKERS, "test_num_io_threads_changes_live"),
    "num.partitions": (BROKERS, "test_auto_create_topics_enable_and_num_partitions"),
    "min.insync.replicas": (REPLICATION, "test_min_insync_replicas"),
    "unclean.leader.election.enable": (
        "unit/broker/test_cluster_replication.py",
        "test_unclean_leader_election_enable",
    ),
    "num.replica.fetchers": (REPLICATION, "test_num_replica_fetchers"),
    "num.recovery.threads.per.data.dir": (
        RESOURCES,
        "test_num_recovery_threads_per_data_dir_is_how_many_logs_are_opened_at_once",
    ),
    "offset.metadata.max.bytes": (BROKERS, "test_offset_metadata_max_bytes"),
    "offsets.commit.timeout.ms": (
        "unit/broker/test_group_failover.py",
        "test_a_commit_that_stays_unsafe_is_given_up_and_may_still_count",
    ),
    "offsets.retention.check.interval.ms": (
        BROKERS,
        "test_offsets_retention_minutes_and_its_check_interval",
    ),
    "offsets.retention.minutes": (BROKERS, "test_offsets_retention_minutes_and_its_check_interval"),
    "offsets.topic.compression.codec": OFFSETS_TOPIC,
    "offsets.topic.num.partitions": OFFSETS_TOPIC,
    "offsets.topic.replication.factor": (
        BROKERS,
        "test_offsets_topic_replication_factor_has_to_be_reachable",
    ),
    "offsets.topic.segment.bytes": OFFSETS_TOPIC,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": TRANSACTION_TIMES,
    "transaction.max.timeout.ms": TRANSACTION_TIMES,
    "transaction.remove.expired.transaction.cleanup.interval.ms": TRANSACTION_TIMES,
    "group.share.assignment.interval.ms": (
        SHARE_GROUPS,
        "test_assignment_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.heartbeat.interval.ms": (
        SHARE_GROUPS,
        "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.initialize.retry.interval.ms": (SHARE_GROUPS, "test_size_and_retry_are_the_files"),
    "group.share.max.assignment.interval.ms": (
        SHARE_GROUPS,
        "test_assignment_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.max.heartbeat.interval.ms": (
        SHARE_GROUPS,
        "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.max.session.timeout.ms": (
        SHARE_GROUPS,
        "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.max.size": (SHARE_GROUPS, "test_size_and_retry_are_the_files"),
    "group.share.min.assignment.interval.ms": (
        SHARE_GROUPS,
        "test_assignment_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.min.heartbeat.interval.ms": (
        SHARE_GROUPS,
        "test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.min.session.timeout.ms": (
        SHARE_GROUPS,
        "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "group.share.session.timeout.ms": (
        SHARE_GROUPS,
        "test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds",
    ),
    "share.coordinator.cold.partition.snapshot.interval.ms": (
        SHARE_STATES,
        "test_states_that_do_not_change_are_stored_anew_so_that_others_can_be_deleted",
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": (
        SHARE_STATES,
        "test_records_that_no_state_needs_are_deleted",
    ),
    "share.coordinator.state.topic.compression.codec": (
        SHARE_STATES,
        "test_states_are_compressed_as_configured",
    ),
    "share.coordinator.state.topic.min.isr": SHARE_STATES_TOPIC,
    "share.coordinator.state.topic.num.partitions": SHARE_STATES_TOPIC,
    "share.coordinator.state.topic.prune.interval.ms": (
        SHARE_STATES,
        "test_records_that_no_state_needs_are_deleted",
    ),
    "share.coordinator.state.topic.replication.factor": SHARE_STATES_TOPIC,
    "share.coordinator.state.topic.segment.bytes": SHARE_STATES_TOPIC,
    "share.coordinator.write.timeout.ms": (
        "unit/coordinator/share/test_share_state_service.py",
        "test_a_write_waits_for_its_replicas_as_long_as_configured",
    ),
    "transaction.state.log.min.isr": TRANSACTIONS_TOPIC,
    "transaction.state.log.num.partitions": TRANSACTIONS_TOPIC,
    "transaction.state.log.replication.factor": TRANSACTIONS_TOPIC,
    "transaction.state.log.segment.bytes": TRANSACTIONS_TOPIC,
    "transactional.id.expiration.ms": TRANSACTION_TIMES,
    "process.roles": (QUORUM, "test_a_controller_without_a_broker_has_no_listener_for_clients"),
    "producer.id.expiration.check.interval.ms": (
        BROKERS,
        "test_producer_id_expiration_ms_and_its_check_interval",
    ),
    "producer.id.expiration.ms": (BROKERS, "test_producer_id_expiration_ms_and_its_check_interval"),
    "queued.max.request.bytes": (
        RESOURCES,
        "test_queued_max_request_bytes_lets_large_requests_wait_for_each_other",
    ),
    "quota.window.num": (QUOTAS, "test_windows_of_quotas"),
    "quota.window.size.seconds": (QUOTAS, "test_windows_of_quotas"),
    "replica.fetch.backoff.ms": (REPLICATION, "test_replica_fetch_backoff_ms"),
    "replica.fetch.max.bytes": (REPLICATION, "test_replica_fetch_max_bytes"),
    "replica.fetch.min.bytes": (REPLICATION, "test_replica_fetch_min_bytes"),
    "replica.fetch.response.max.bytes": (REPLICATION, "test_replica_fetch_response_max_bytes"),
    "replica.fetch.wait.max.ms": (REPLICATION, "test_replica_fetch_wait_max_ms"),
    "replica.lag.time.max.ms": (REPLICATION, "test_replica_lag_time_max_ms"),
    "replica.high.watermark.checkpoint.interval.ms": CHECKPOINTS,
    "replica.selector.class": (
        "unit/replication/test_nearest_replicas.py",
        "test_a_consumer_is_sent_to_the_replica_in_its_rack",
    ),
    "security.inter.broker.protocol": (
        "unit/config/test_listeners.py",
        "test_a_listener_that_cannot_be_is_refused_by_name",
    ),
    "socket.listen.backlog.size": (
        RESOURCES,
        "test_socket_listen_backlog_size_bounds_who_waits_to_be_accepted",
    ),
    "socket.receive.buffer.bytes": (
        RESOURCES,
        "test_buffers_of_sockets_have_the_size_that_the_file_says",
    ),
    "socket.request.max.bytes": (BROKERS, "test_socket_request_max_bytes"),
    "socket.send.buffer.bytes": (
        RESOURCES,
        "test_buffers_of_sockets_have_the_size_that_the_file_says",
    ),
}
TOPICS_CLEANER = (RESOURCES, "test_a_topic_says_when_it_is_cleaned")
PROOFS_OF_TOPIC_KEYS = {
    "confluent.key.schema.validation": REGISTERED_SCHEMAS,
    "confluent.key.subject.name.strategy": REGISTERED_SCHEMAS,
    "confluent.value.schema.validation": REGISTERED_SCHEMAS,
    "confluent.value.subject.name.strategy": REGISTERED_SCHEMAS,
    "compression.gzip.level": (LOGS, "test_levels_of_compression_are_a_topics_own"),
    "compression.lz4.level": (LOGS, "test_levels_of_compression_are_a_topics_own"),
    "compression.zstd.level": (LOGS, "test_levels_of_compression_are_a_topics_own"),
    "delete.retention.ms": (RESOURCES, "test_delete_retention_ms_of_a_topic_reaches_its_log"),
    "follower.replication.throttled.replicas": (
        THROTTLES,
        "test_a_follower_that_lags_fetches_no_faster_than_its_rate",
    ),
    "leader.replication.throttled.replicas": (
        THROTTLES,
        "test_a_leader_gives_a_follower_out_of_sync_no_more_than_its_rate",
    ),
    "max.compaction.lag.ms": TOPICS_CLEANER,
    "min.cleanable.dirty.ratio": TOPICS_CLEANER,
    "min.compaction.lag.ms": TOPICS_CLEANER,
    "min.insync.replicas": (REPLICATION, "test_min_insync_replicas"),
    "unclean.leader.election.enable": (
        "unit/broker/test_cluster_replication.py",
        "test_unclean_leader_election_enable",
    ),
    "remote.storage.enable": (
        "unit/config/test_topic_config.py",
        "test_a_value_that_a_topic_cannot_have_is_invalid_config",
    ),
}
