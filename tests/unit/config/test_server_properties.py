"""A node's configuration from Kafka's own server properties."""

import re
from pathlib import Path

import pytest

from log_service.common.errors import ConfigError
from log_service.config.heartbeats import rare_heartbeats_warning
from log_service.config.server import parse_server_properties
from log_service.config.views import ListenerConfig, NodeConfig

KAFKAS_SAMPLE = """
# The sample of a combined node that Apache Kafka ships says this.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=data/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def parse(text: str = "", *overrides: str) -> NodeConfig:
    return parse_server_properties("node.id=1\n" + text, overrides)[0]


def refusal(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_server_properties(text, overrides)
    return str(raised.value)


def test_kafkas_own_sample_is_accepted_without_a_warning() -> None:
    node, settings = parse_server_properties(KAFKAS_SAMPLE)
    assert settings.warning is None
    assert node.listeners == (
        ListenerConfig(
            name="PLAINTEXT", host="", port=9092, advertised_host="localhost", advertised_port=9092
        ),
    )
    assert node.controller_listener is not None
    assert (node.controller_listener.name, node.controller_listener.port) == ("CONTROLLER", 9093)
    assert node.log_manager.log_dirs == (Path("data/kraft-combined-logs"),)
    assert node.log_manager.recovery_threads_per_data_dir == 1
    assert node.disk_pool_threads == 8


def test_a_node_needs_nothing_but_its_number() -> None:
    node = parse()
    assert node.node_id == 1
    assert [(listener.host, listener.port) for listener in node.listeners] == [("127.0.0.1", 9092)]
    assert node.inter_broker_listener_name == "PLAINTEXT"
    assert node.metadata_log_dir == node.log_manager.log_dirs[0]


def test_values_reach_the_views_that_use_them() -> None:
    node = parse(
        """
        broker.rack=r1
        num.partitions=4
        auto.create.topics.enable=false
        delete.topic.enable=false
        default.replication.factor=1
        group.initial.rebalance.delay.ms=0
        group.min.session.timeout.ms=1000
        group.max.size=10
        offsets.retention.minutes=2
        offsets.topic.num.partitions=8
        message.max.bytes=2000000
        min.insync.replicas=1
        log.cleanup.policy=compact,delete
        log.flush.interval.messages=1
        fetch.max.bytes=2048
        max.incremental.fetch.session.cache.slots=7
        max.connections.per.ip=5
        max.connections.per.ip.overrides=127.0.0.1:50,0:0::1:60,::FFFF:10.1.2.3:70,[FE80::1]:80,a.host:90
        connections.max.idle.ms=-1
        queued.max.request.bytes=1000
        producer.id.expiration.ms=9
        metadata.log.dir=meta
        metadata.log.max.record.bytes.between.snapshots=1000
        """
    )
    assert node.rack == "r1"
    assert (
        node.topics.partition_count,
        node.topics.is_auto_created,
        node.topics.is_deletion_enabled,
    ) == (4, False, False)
    assert (
        node.groups.initial_rebalance_delay_ms,
        node.groups.min_session_timeout_ms,
        node.groups.max_size,
    ) == (0, 1000, 10)
    assert (node.groups.offsets_retention_ms, node.groups.offsets_topic_partitions) == (120_000, 8)
    assert (node.log.max_message_bytes, node.log.flush_messages) == (2_000_000, 1)
    assert (node.log.is_compacted, node.log.is_deleted) == (True, True)
    assert (node.fetch.max_bytes, node.fetch.max_session_cache_slots) == (2048, 7)
    assert node.limits.connections.max_count_of_host == (
        ("127.0.0.1", 50),
        ("::1", 60),
        ("10.1.2.3", 70),
        ("fe80::1", 80),
        ("a.host", 90),
    )
    assert node.limits.idle_timeout_ms > 10**15
    assert node.limits.max_request_bytes_in_flight == 1000
    assert node.log_manager.producer_id_expiration_ms == 9
    assert node.metadata_log_dir == Path("meta")
    assert node.metadata_log.max_record_bytes_between_snapshots == 1000


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("", 7 * 24 * 3_600_000),
        ("log.retention.hours=2", 7_200_000),
        ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
        ("log.retention.hours=-1", -1),
    ],
)
def test_the_finest_unit_of_retention_wins(text: str, retention_ms: int) -> None:
    assert parse(text).log.retention_ms == retention_ms


def test_the_finest_unit_of_rolling_wins() -> None:
    assert parse("log.roll.hours=1").log.segment_ms == 3_600_000
    assert parse("log.roll.hours=1\nlog.roll.ms=5000").log.segment_ms == 5000


def test_log_dir_holds_where_log_dirs_says_nothing() -> None:
    assert parse("log.dir=a,b").log_manager.log_dirs == (Path("a"), Path("b"))
    assert parse("log.dir=a\nlog.dirs=c").log_manager.log_dirs == (Path("c"),)
    assert parse("log.dir=a").metadata_log_dir == Path("a")


def test_overrides_win_over_the_file() -> None:
    assert parse("num.partitions=2", "num.partitions=3").topics.partition_count == 3


def test_an_override_without_equals_is_refused() -> None:
    assert "num.partitions" in refusal("node.id=1", "num.partitions")


def test_unknown_keys_are_named_in_one_warning_with_what_was_meant() -> None:
    _, settings = parse_server_properties("node.id=1\nlog.retnetion.ms=1\nzookeeper.connect=h:1")
    assert settings.unknown_keys == ("log.retnetion.ms", "zookeeper.connect")
    assert settings.warning is not None
    assert "did you mean log.retention.ms?" in settings.warning
    assert "zookeeper.connect" in settings.warning


def test_broker_id_is_an_older_name_of_node_id() -> None:
    assert parse_server_properties("broker.id=7")[0].node_id == 7
    assert parse_server_properties("broker.id=7\nnode.id=7")[0].node_id == 7
    assert "they name the same thing" in refusal("broker.id=7\nnode.id=8")


def test_a_single_voter_that_is_this_node_is_accepted() -> None:
    assert parse("controller.quorum.voters=1@localhost:9093").node_id == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "node.id is missing"),
        ("node.id=one", "node.id"),
        ("node.id=-1", "at least 0"),
        ("node.id=1\nprocess.roles=broker,dancer", "dancer"),
        ("node.id=1\ncontroller.quorum.voters=2@a:1", "names node 2, but this is node 1"),
        (
            "node.id=1\nauthorizer.class.name=org.example.Authorizer",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        (
            "node.id=1\nauthorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "kept its rules in ZooKeeper",
        ),
        ("node.id=1\nsuper.users=User:a;admin", "'admin' is not a principal"),
        ("node.id=1\nearly.start.listeners=PLAINTEXT", "name one of CONTROLLER"),
        ("node.id=1\nremote.log.storage.system.enable=true", "remote storage"),
        ("node.id=1\nlog.dirs=a,a", "twice"),
        ("node.id=1\nlog.dirs=/a,/b/../a/", "twice"),
        ("node.id=1\nlog.dirs=/a/b,/a", "log.dirs names /a/b, which lies in /a"),
        ("node.id=1\nlog.dirs=/a,/a/b/c", "log.dirs names /a/b/c, which lies in /a"),
        ("node.id=1\nlog.dirs=a,,b", "no directory"),
        ("node.id=1\nlog.dirs=", "no directory"),
        ("node.id=1\nlog.retention.ms=soon", "log.retention.ms"),
        ("node.id=1\nlog.segment.bytes=14", "at least 1048576"),
        ("node.id=1\nfetch.max.bytes=1", "at least 1024"),
        (
            "node.id=1\ngroup.min.session.timeout.ms=10\ngroup.max.session.timeout.ms=9",
            "group.min.session.timeout.ms is 10",
        ),
        ("node.id=1\nmax.connections.per.ip.overrides=1.2.3.4", "not host:count"),
        ("node.id=1\nauto.create.topics.enable=yes", "true or false"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(text: str, named: str) -> None:
    assert named in refusal(text)


def test_settings_hold_what_was_set_as_it_was_written() -> None:
    _, settings = parse_server_properties("node.id=1\nlog.retention.hours=2", ["num.partitions=3"])
    assert dict(settings.texts) == {
        "node.id": "1",
        "broker.id": "1",
        "log.retention.hours": "2",
        "num.partitions": "3",
    }


def test_keys_without_meaning_are_named_in_one_warning_when_they_are_set_to_something_else() -> (
    None
):
    _, settings = parse_server_properties(
        "node.id=1\nbackground.threads=10\nnum.network.threads=8\nssl.protocol=TLSv1.2\nlog.retention.hours=2\n"
        "listener.name.plaintext.max.connections=7\nlistener.name.plaintext.connections.max.idle.ms=5\n"
    )
    assert settings.idle_keys == (
        "listener.name.plaintext.connections.max.idle.ms",
        "num.network.threads",
        "ssl.protocol",
    )
    assert settings.idle_warning is not None
    assert "num.network.threads" in settings.idle_warning
    assert parse_server_properties("node.id=1")[1].idle_warning is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("User:a,User:b", "User:a;User:b"),
        ("User:admin; User:a, User:b,Group:c", "User:a;User:b;Group:c"),
        ("User:a;User:b", None),
        ("User:CN=node,OU=log;User:CN=other,OU=urn:log", None),
    ],
)
def test_super_users_that_commas_made_one_are_told(text: str, meant: str | None) -> None:
    _, settings = parse_server_properties({"node.id": "1", "super.users": text})
    warning = settings.super_users_warning
    assert (warning is not None) == (meant is not None)
    assert warning is None or warning.endswith(f"write {meant}")


@pytest.mark.parametrize(
    "text",
    ["authorizer.class.name=X", "create.topic.policy.class.name=X", "alter.config.policy.class.name=X", "client.quota.callback.class=X",
     "config.providers=file", "remote.log.storage.system.enable=true", "listener.name.plaintext.max.connections=many",
     "sasl.login.refresh.buffer.seconds=soon"],
)  # fmt: skip
def test_what_is_not_there_and_what_is_no_value_is_refused_by_name(text: str) -> None:
    with pytest.raises(
        ConfigError, match=re.escape(text.partition("=")[0].rpartition(".name.plaintext.")[2])
    ):
        parse_server_properties(f"node.id=1\n{text}")


def test_a_replica_selector_of_java_is_refused_at_the_start() -> None:
    with pytest.raises(
        ConfigError,
        match=r"replica\.selector\.class is 'com\.example\.Mine'; it must be one of RackAware",
    ):
        parse_server_properties({"node.id": "1", "replica.selector.class": "com.example.Mine"})


def test_a_key_that_is_given_twice_is_told_with_its_lines() -> None:
    """The node started in the directory of the last line without a word."""
    text = "node.id=1\nlog.dirs=/a\nnum.partitions=1\nlog.dirs=/b\n"
    config, settings = parse_server_properties(text)
    assert config.log_manager.log_dirs == (Path("/b"),)
    assert (
        settings.repeated_warning
        == "log.dirs is on line 2, and again on line 4, whose value holds. Leave one line of each"
    )
    assert parse_server_properties(text, ["log.dirs=/c"])[1].repeated_warning is None
    assert (
        parse_server_properties("node.id=1", ["log.dirs=/c", "log.dirs=/d"])[1].repeated_warning
        is None
    )


BOTH_ROLES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "C",
    "listeners": "A://:9092,C://:9093",
}
BOTH_ROLES |= {
    "listener.security.protocol.map": "A:PLAINTEXT,C:PLAINTEXT",
    "controller.quorum.voters": "1@h:9093",
    "inter.broker.listener.name": "A",
}
BROKER = BOTH_ROLES | {
    "process.roles": "broker",
    "listeners": "A://:9092",
    "controller.quorum.voters": "2@h:9093",
}
INTERVAL, SESSION = "broker.heartbeat.interval.ms", "broker.session.timeout.ms"


@pytest.mark.parametrize(
    "properties",
    [
        BOTH_ROLES | {INTERVAL: "9000"},
        BOTH_ROLES | {SESSION: "2000"},
        BROKER | {INTERVAL: "5000", SESSION: "5000"},
        {"node.id": "1", INTERVAL: "9000"},
    ],
    ids=["interval", "session", "both", "alone"],
)
def test_heartbeats_that_are_rarer_than_the_session_allows_are_refused(
    properties: dict[str, str],
) -> None:
    """The broker was fenced between any two of its heartbeats, and nothing said why."""
    with pytest.raises(ConfigError, match=rf"{INTERVAL} is \d+, not below {SESSION}, which is \d+"):
        parse_server_properties(properties)


@pytest.mark.parametrize(
    ("properties", "is_told"),
    [
        (BOTH_ROLES, False),
        (BOTH_ROLES | {INTERVAL: "4500"}, False),
        (BOTH_ROLES | {INTERVAL: "4501"}, True),
        (BROKER | {INTERVAL: "9000"}, True),
    ],
    ids=["default", "half", "more than half", "the session may be in the file of a controller"],
)
def test_heartbeats_of_which_none_may_be_lost_are_told(
    properties: dict[str, str], *, is_told: bool
) -> None:
    warning = rare_heartbeats_warning(parse_server_properties(properties)[0])
    assert (warning is not None) == is_told
