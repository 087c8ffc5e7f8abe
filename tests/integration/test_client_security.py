"""The client meets a node of Apache Kafka that wants logins and certificates.

Some get in, and the others get a clear error.
"""

import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from log_service.client import (
    AclBinding,
    AclFilter,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    NewTopic,
    ScramUser,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from tests.helpers.authority import Authority
from tests.integration.command_line import as_json, run
from tests.integration.kafka_node import skip_unless_kafka_is_there
from tests.integration.secure_kafka import (
    ADMIN,
    ADMIN_PASSWORD,
    ALICE,
    ALICE_PASSWORD,
    PLAIN_MODULE,
    SecureKafka,
)

T = TypeVar("T")

REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    skip_unless_kafka_is_there()
    secure = SecureKafka(tmp_path_factory.mktemp("secure"))
    with secure.node:
        yield secure


def test_login_with_plain_reaches_the_cluster(kafka: SecureKafka) -> None:
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        assert admin.describe_cluster().nodes


def test_wrong_password_is_told_at_once_and_not_tried_again(kafka: SecureKafka) -> None:
    settings = kafka.as_user(password="planted-wrong-password")
    with (
        BlockingAdmin(kafka.sasl, **settings) as admin,
        pytest.raises(KafkaError, match="Invalid username or password") as caught,
    ):
        admin.list_topics()
    assert caught.value.code is REFUSED
    assert "planted" not in str(caught.value)
    assert "planted" not in repr(admin)


def test_wrong_password_ends_send_and_poll(kafka: SecureKafka) -> None:
    settings = kafka.as_user(password="wrong")
    with BlockingProducer(kafka.sasl, **settings) as producer, pytest.raises(KafkaError) as sent:
        producer.send("anything", value=b"1").wait()
    with BlockingConsumer(kafka.sasl, group_id="g", **settings) as consumer:
        consumer.subscribe(["anything"])
        with pytest.raises(KafkaError) as polled:
            consumer.poll(timeout_ms=30_000)
    assert (sent.value.code, polled.value.code) == (REFUSED, REFUSED)


@pytest.mark.parametrize(
    ("listener", "protocol", "told"),
    [
        (
            "sasl",
            "PLAINTEXT",
            r"takes no request without a login: .* one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            "sasl_ssl",
            "SSL",
            r"takes no request without a login: .* one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("sasl", "SSL", "speaks Kafka's protocol without TLS"),
        ("ssl", "PLAINTEXT", "speaks TLS: set security_protocol to SSL or SASL_SSL"),
        ("sasl_ssl", "PLAINTEXT", "speaks TLS: set security_protocol to SSL or SASL_SSL"),
    ],
)
def test_what_a_listener_speaks_is_told_where_the_client_speaks_something_else(
    kafka: SecureKafka, listener: str, protocol: str, told: str
) -> None:
    settings = {"security_protocol": protocol} | (
        {"ssl_ca": str(kafka.authority.truststore)} if protocol == "SSL" else {}
    )
    with (
        BlockingAdmin(getattr(kafka, listener), **settings) as admin,
        pytest.raises(KafkaError, match=told) as caught,
    ):
        admin.list_topics()
    assert caught.value.code is REFUSED


def test_mechanism_that_the_broker_does_not_take_is_named_with_those_it_takes(
    kafka: SecureKafka,
) -> None:
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token": lambda: "abc",
    }
    with (
        BlockingAdmin(kafka.sasl, **settings) as admin,
        pytest.raises(KafkaError, match="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ):
        admin.list_topics()


def test_login_at_a_listener_without_logins_says_so(kafka: SecureKafka) -> None:
    with (
        BlockingAdmin(kafka.node.bootstrap, **kafka.as_user()) as admin,
        pytest.raises(KafkaError, match="security_protocol=PLAINTEXT"),
    ):
        admin.list_topics()


def test_plaintext_at_a_port_with_tls_says_so(kafka: SecureKafka) -> None:
    with (
        BlockingAdmin(kafka.sasl_ssl, default_api_timeout_ms=2_000) as admin,
        pytest.raises(KafkaError, match="security_protocol"),
    ):
        admin.list_topics()


def test_certificate_of_our_own_logs_in(kafka: SecureKafka) -> None:
    with BlockingAdmin(kafka.ssl, **kafka.with_certificate("operator")) as admin:
        assert admin.describe_cluster().nodes


def test_login_over_tls_reaches_the_cluster(kafka: SecureKafka) -> None:
    settings = kafka.as_user() | {
        "security_protocol": "SASL_SSL",
        "ssl_ca": str(kafka.authority.truststore),
    }
    with BlockingAdmin(kafka.sasl_ssl, **settings) as admin:
        assert admin.describe_cluster().nodes


def test_server_that_nobody_vouches_for_is_told_at_once(kafka: SecureKafka, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger").truststore
    settings = kafka.as_user() | {"security_protocol": "SASL_SSL", "ssl_ca": str(stranger)}
    with (
        BlockingAdmin(kafka.sasl_ssl, **settings) as admin,
        pytest.raises(KafkaError, match="certificate of the server") as caught,
    ):
        admin.list_topics()
    assert caught.value.code is REFUSED


def test_tls_at_a_port_without_it_says_so(kafka: SecureKafka) -> None:
    settings = {
        "security_protocol": "SSL",
        "ssl_ca": str(kafka.authority.truststore),
        "default_api_timeout_ms": 2_000,
    }
    with (
        BlockingAdmin(kafka.node.bootstrap, **settings) as admin,
        pytest.raises(KafkaError, match="TLS"),
    ):
        admin.list_topics()


def test_the_platform_reads_how_to_log_in_from_its_environment(
    kafka: SecureKafka, operator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = pytest.importorskip("orchestration.log_client.connection")
    monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(operator))
    with connection.connect_admin(kafka.sasl) as admin:
        assert admin.list_topics() is not None
    monkeypatch.setenv("TIDELOG_SASL_MECHANISM", "SCRAM-SHA-256")
    with (
        pytest.raises(connection.LogServiceError, match="login module for PLAIN"),
        connection.connect_admin(kafka.sasl),
    ):
        pass


def test_user_of_scram_logs_in_as_soon_as_it_is_there(kafka: SecureKafka) -> None:
    name, password = "bob-of-scram", "über=geheim,"
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        admin.set_scram_users([ScramUser(name=name, mechanism="SCRAM-SHA-512", password=password)])
        assert eventually(lambda: list(admin.describe_scram_users().items()), 1) == [
            (name, {"SCRAM-SHA-512": 4096})
        ]
    with BlockingAdmin(kafka.sasl, **kafka.as_user(name, password, "SCRAM-SHA-512")) as bob:
        assert bob.list_topics() == []
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        admin.remove_scram_users([(name, "SCRAM-SHA-512")])
        assert eventually(lambda: list(admin.describe_scram_users()), 0) == []


def test_acl_opens_a_topic_and_its_removal_closes_it(kafka: SecureKafka) -> None:
    binding = AclBinding(
        resource_type="topic", name="opened", principal=f"User:{ALICE}", operation="create"
    )
    with (
        BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin,
        BlockingAdmin(kafka.sasl, **kafka.as_user(ALICE, ALICE_PASSWORD)) as alice,
    ):
        with pytest.raises(KafkaError) as refused:
            alice.create_topics([NewTopic(name="opened", partition_count=1, replication_factor=1)])
        admin.create_acls([binding])
        assert admin.describe_acls(AclFilter(resource_type="topic", name="opened")) == [binding]
        alice.create_topics([NewTopic(name="opened", partition_count=1, replication_factor=1)])
        assert admin.delete_acls([AclFilter(principal=f"User:{ALICE}")]) == [binding]
        assert eventually(admin.describe_acls, 0) == []
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_token_stands_for_its_owner_until_it_is_expired(kafka: SecureKafka) -> None:
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        token = admin.create_delegation_token(renewers=["User:renewer"])
        assert token.hmac.reveal() not in repr(token).encode()
        assert told(admin, 1) == [token.token_id]
        assert admin.renew_delegation_token(token.hmac) >= token.expiry_timestamp_ms
        settings = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_jaas_config": token.jaas_config(),
        }
        with BlockingAdmin(kafka.sasl, **settings) as bearer:
            assert bearer.describe_cluster().nodes
        admin.expire_delegation_token(token.hmac)
        assert told(admin, 0) == []


def told(admin: BlockingAdmin, count: int) -> list[str]:
    """Return the ids of tokens, once there are as many as there should be."""
    return [token.token_id for token in eventually(admin.describe_delegation_tokens, count)]


def test_a_topic_that_may_be_described_and_not_read_keeps_no_other_from_being_waited_for(
    kafka: SecureKafka,
) -> None:
    shut, open_one = TopicPartition("shut", 0), TopicPartition("readable", 0)
    rights = [("shut", "describe"), ("readable", "read")]
    bindings = [
        AclBinding(resource_type="topic", name=name, principal=f"User:{ALICE}", operation=right)
        for name, right in rights
    ]
    with (
        BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin,
        BlockingAdmin(kafka.sasl, **kafka.as_user(ALICE, ALICE_PASSWORD)) as alice,
    ):
        admin.create_topics(
            [NewTopic(name=name, partition_count=1, replication_factor=1) for name, _ in rights]
        )
        admin.create_acls(bindings)
        assert [one.name for one in eventually(alice.list_topics, 2)] == ["readable", "shut"]
        assert alice.describe_offsets(["shut"])[shut].high_watermark == 0
        assert alice.wait_for_records({shut: 0, open_one: 0}, 500) == set()
        with BlockingProducer(kafka.sasl, **kafka.as_user()) as producer:
            producer.send("readable", b"x").wait()
        assert alice.wait_for_records({shut: 0, open_one: 0}, 20_000) == {open_one}
        with pytest.raises(KafkaError) as refused:
            alice.wait_for_records({shut: 0}, 20_000)
        admin.delete_acls([AclFilter(principal=f"User:{ALICE}")])
        assert eventually(admin.describe_acls, 0) == []
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def eventually(ask: Callable[[], list[T]], count: int) -> list[T]:
    """Return what the broker tells, once it tells of so many: it hears of changes a moment later."""
    found = ask()
    for _ in range(100):
        if len(found) == count:
            break
        time.sleep(0.05)
        found = ask()
    return found


# The command line


@pytest.fixture(scope="module")
def operator(kafka: SecureKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that Kafka's tools and ours take."""
    path = tmp_path_factory.mktemp("clients") / "operator.properties"
    path.touch(0o600)
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="{ADMIN}" password="{ADMIN_PASSWORD}";\n'
    )
    return path


def test_users_are_added_listed_and_removed(kafka: SecureKafka, operator: Path) -> None:
    config = ["--command-config", str(operator)]
    added = run(
        ["users", "add", "carol", "--password-file", "-", *config],
        bootstrap=kafka.sasl,
        given="planted-password\n",
    )
    assert (added.exit_code, added.lines) == (0, ["carol logs in with SCRAM-SHA-512"]), added.errors
    with BlockingAdmin(
        kafka.sasl, **kafka.as_user("carol", "planted-password", "SCRAM-SHA-512")
    ) as carol:
        assert carol.list_topics() is not None
    listed = run(["users", "list", "carol", "--json", *config], bootstrap=kafka.sasl)
    assert as_json(listed) == [{"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    assert run(["users", "remove", "carol", "--yes", *config], bootstrap=kafka.sasl).exit_code == 0
    missing = run(["users", "list", "carol", *config], bootstrap=kafka.sasl)
    assert missing.exit_code == 1
    assert "carol" in missing.errors


def test_password_is_not_asked_for_where_there_is_no_terminal(
    kafka: SecureKafka, operator: Path
) -> None:
    refused = run(["users", "add", "dave", "--command-config", str(operator)], bootstrap=kafka.sasl)
    assert refused.exit_code == 1
    assert "--password-file" in refused.errors


def test_acls_of_a_producer_are_added_listed_and_removed(
    kafka: SecureKafka, operator: Path
) -> None:
    config = ["--command-config", str(operator)]
    who = ["--allow-principal", "erin", "--producer", "--topic", "shop.", "--pattern", "prefixed"]
    added = run(["acls", "add", *who, *config], bootstrap=kafka.sasl)
    assert added.lines == [
        f"User:erin may {what} topic shop. and what begins so"
        for what in ("write", "describe", "create")
    ], added.errors
    listed = as_json(
        run(
            ["acls", "list", "--topic", "shop.orders", "--pattern", "match", "--json", *config],
            bootstrap=kafka.sasl,
        )
    )
    assert sorted(row["operation"] for row in listed) == ["create", "describe", "write"]
    removed = run(["acls", "remove", *who, "--yes", *config], bootstrap=kafka.sasl)
    assert len(removed.lines) == 3, removed.errors
    gone = run(["acls", "list", "--allow-principal", "User:erin", *config], bootstrap=kafka.sasl)
    assert gone.lines == ["there are no such ACLs; see: tidelog acls add --help"]
    everything = run(["acls", "remove", "--yes", *config], bootstrap=kafka.sasl)
    assert "all ACLs are not removed at once" in everything.errors


def test_token_is_written_to_a_file_with_which_a_client_logs_in(
    kafka: SecureKafka, operator: Path, tmp_path: Path
) -> None:
    config = ["--command-config", str(operator)]
    path = tmp_path / "job.properties"
    created = run(["tokens", "create", "--to", str(path), "--json", *config], bootstrap=kafka.sasl)
    token_id = as_json(created)["token"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        told(admin, 1)
    used = run(["topics", "list", "--command-config", str(path)], bootstrap=kafka.sasl)
    assert used.exit_code == 0, used.errors
    assert run(["tokens", "renew", token_id, *config], bootstrap=kafka.sasl).exit_code == 0
    assert run(["tokens", "expire", token_id, *config], bootstrap=kafka.sasl).exit_code == 0


def test_environment_holds_for_commands(
    kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in kafka.as_user(password="planted-wrong").items():
        monkeypatch.setenv(f"TIDELOG_{name.upper()}", value)
    refused = run(["topics", "list"], bootstrap=kafka.sasl)
    assert refused.exit_code == 1
    assert "Invalid username or password" in refused.errors
    assert "planted-wrong" not in refused.errors
