"""The client against a node of Apache Kafka that wants logins and certificates: who gets in, and what those are told who do not."""

from collections.abc import Iterator

import pytest

from log_service.client import AclBinding, AclFilter, BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic, ScramUser
from log_service.common.errors import ErrorCode, KafkaError
from tests.integration.kafka_node import skip_unless_kafka_is_there
from tests.integration.secure_kafka import ALICE, ALICE_PASSWORD, SecureKafka

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
    with BlockingAdmin(kafka.sasl, **settings) as admin, pytest.raises(KafkaError, match="Invalid username or password") as caught:
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


def test_mechanism_that_the_broker_does_not_take_is_named_with_those_it_takes(kafka: SecureKafka) -> None:
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": lambda: "abc"}
    with BlockingAdmin(kafka.sasl, **settings) as admin, pytest.raises(KafkaError, match="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        admin.list_topics()


def test_login_at_a_listener_without_logins_says_so(kafka: SecureKafka) -> None:
    with BlockingAdmin(kafka.node.bootstrap, **kafka.as_user()) as admin, pytest.raises(KafkaError, match="security_protocol=PLAINTEXT"):
        admin.list_topics()


def test_plaintext_at_a_port_with_tls_says_so(kafka: SecureKafka) -> None:
    with BlockingAdmin(kafka.sasl_ssl, default_api_timeout_ms=2_000) as admin, pytest.raises(KafkaError, match="security_protocol"):
        admin.list_topics()


def test_user_of_scram_logs_in_as_soon_as_it_is_there(kafka: SecureKafka) -> None:
    name, password = "bob-of-scram", "über=geheim,"
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        admin.set_scram_users([ScramUser(name=name, mechanism="SCRAM-SHA-512", password=password)])
        assert admin.describe_scram_users([name]) == {name: {"SCRAM-SHA-512": 4096}}
    with BlockingAdmin(kafka.sasl, **kafka.as_user(name, password, "SCRAM-SHA-512")) as bob:
        assert bob.list_topics() == []
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        admin.remove_scram_users([(name, "SCRAM-SHA-512")])
        assert admin.describe_scram_users() == {}


def test_acl_opens_a_topic_and_its_removal_closes_it(kafka: SecureKafka) -> None:
    binding = AclBinding(resource_type="topic", name="opened", principal=f"User:{ALICE}", operation="create")
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin, BlockingAdmin(kafka.sasl, **kafka.as_user(ALICE, ALICE_PASSWORD)) as alice:
        with pytest.raises(KafkaError) as refused:
            alice.create_topics([NewTopic(name="opened", partition_count=1, replication_factor=1)])
        admin.create_acls([binding])
        assert admin.describe_acls(AclFilter(resource_type="topic", name="opened")) == [binding]
        alice.create_topics([NewTopic(name="opened", partition_count=1, replication_factor=1)])
        assert admin.delete_acls([AclFilter(principal=f"User:{ALICE}")]) == [binding]
        assert admin.describe_acls() == []
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_token_stands_for_its_owner_until_it_is_expired(kafka: SecureKafka) -> None:
    with BlockingAdmin(kafka.sasl, **kafka.as_user()) as admin:
        token = admin.create_delegation_token(renewers=["User:renewer"])
        assert token.hmac.reveal() not in repr(token).encode()
        assert [each.token_id for each in admin.describe_delegation_tokens()] == [token.token_id]
        assert admin.renew_delegation_token(token.hmac) >= token.expiry_timestamp_ms
        settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": token.jaas_config()}
        with BlockingAdmin(kafka.sasl, **settings) as bearer:
            assert bearer.describe_cluster().nodes
        admin.expire_delegation_token(token.hmac)
        assert admin.describe_delegation_tokens() == []
