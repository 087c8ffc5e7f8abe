"""One cluster of both products has SASL_SSL between all nodes.

Users, ACLs and tokens that one product makes hold on the other.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import pytest

from log_service.client import AclBinding, BlockingAdmin, BlockingProducer, NewTopic, ScramUser
from log_service.common.errors import ErrorCode, KafkaError
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS
from tests.integration.secure_nodes import NODE, SCRAM, SHOP, STRANGER, TOPIC, SecureNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_SECONDS = 30.0
OURS, KAFKAS = 1, 3
ELECTIONS = 20
"""Which of the voters wins an election is open; two of the three are of one product."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    products = {1: TIDELOG, 2: TIDELOG, 3: APACHE_KAFKA}
    with SecureNodes(products, tmp_path_factory.mktemp("mixed"), is_mixed=True) as running:
        running.grant_least()
        with BlockingAdmin(
            running.bootstrap, default_api_timeout_ms=60_000, **running.client(NODE)
        ) as admin:
            admin.create_topics(
                [NewTopic(name=TOPIC, assignments=dict(enumerate(permutations(NODE_IDS))))]
            )
        yield running


def address(nodes: SecureNodes, node_id: int) -> str:
    return f"127.0.0.1:{nodes.ports[node_id]}"


def eventually(ask: Callable[[], object]) -> None:
    """Ask again while it is refused: nodes hear of changes a moment later."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            ask()
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def refusal(nodes: SecureNodes, node_id: int, user: str, topic: str) -> ErrorCode | None:
    """Return a node's response to a user that asks to make a topic.

    The topic is not made.
    """
    with BlockingAdmin(address(nodes, node_id), **nodes.client(user)) as admin:
        try:
            admin.create_topics(
                [NewTopic(name=topic, partition_count=1, replication_factor=1)],
                is_validated_only=True,
            )
        except KafkaError as error:
            return error.code
    return None


def refusal_of(ask: Callable[[], object]) -> ErrorCode | None:
    try:
        ask()
    except KafkaError as error:
        return error.code
    return None


def has_come_to(wanted: ErrorCode | None, told: Callable[[], ErrorCode | None]) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while told() is not wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def test_either_product_is_controller_leader_and_follower(nodes: SecureNodes) -> None:
    controllers = set()
    for _ in range(ELECTIONS):
        lost = nodes.controller()
        controllers.add(nodes.products[lost])
        with BlockingProducer(
            nodes.bootstrap, delivery_timeout_ms=120_000, **nodes.client(SHOP)
        ) as producer:
            for number in range(60):
                producer.send(TOPIC, str(number).encode(), partition=number % 6)
            producer.flush()
        nodes.wait_until_whole(TOPIC)
        if controllers == {TIDELOG, APACHE_KAFKA}:
            break
        nodes.stop(lost)
        assert nodes.controller(besides=(lost,)) != lost
        nodes.start(lost)
    assert controllers == {TIDELOG, APACHE_KAFKA}
    nodes.wait_until_equal(TOPIC)
    assert {nodes.leader_of(TOPIC, partition) for partition in range(6)} <= set(NODE_IDS)
    assert {nodes.products[replicas[0]] for replicas in nodes.replicas_of(TOPIC)} == {
        TIDELOG,
        APACHE_KAFKA,
    }


@pytest.mark.parametrize(
    ("maker", "other"), [(OURS, KAFKAS), (KAFKAS, OURS)], ids=["ours", "kafkas"]
)
def test_acl_of_one_product_holds_on_the_other(nodes: SecureNodes, maker: int, other: int) -> None:
    topic = f"opened-by-{maker}"
    binding = AclBinding(
        resource_type="topic", name=topic, principal=f"User:{STRANGER}", operation="create"
    )
    assert refusal(nodes, other, STRANGER, topic) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with BlockingAdmin(address(nodes, maker), **nodes.client(NODE)) as admin:
        admin.create_acls([binding])
    assert has_come_to(None, partial(refusal, nodes, other, STRANGER, topic))


@pytest.mark.parametrize(
    ("maker", "other"), [(OURS, KAFKAS), (KAFKAS, OURS)], ids=["ours", "kafkas"]
)
def test_user_of_one_product_logs_in_at_the_other(
    nodes: SecureNodes, maker: int, other: int
) -> None:
    name = f"user-of-{maker}"
    with BlockingAdmin(address(nodes, maker), **nodes.client(NODE)) as admin:
        admin.set_scram_users([ScramUser(name=name, mechanism=SCRAM, password="another-secret")])

    def log_in() -> None:
        with BlockingAdmin(address(nodes, other), **nodes.client(name, "another-secret")) as user:
            assert user.list_topics() == []

    eventually(log_in)
    with (
        BlockingAdmin(address(nodes, other), **nodes.client(name, "wrong")) as liar,
        pytest.raises(KafkaError) as refused,
    ):
        liar.list_topics()
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("maker", "other"), [(OURS, KAFKAS), (KAFKAS, OURS)], ids=["ours", "kafkas"]
)
def test_token_of_one_product_is_taken_by_the_other(
    nodes: SecureNodes, maker: int, other: int
) -> None:
    with BlockingAdmin(address(nodes, maker), **nodes.client(SHOP)) as admin:
        token = admin.create_delegation_token()
    settings = nodes.client(SHOP) | {"sasl_jaas_config": token.jaas_config()}
    del settings["sasl_username"], settings["sasl_password"]

    def log_in() -> None:
        with BlockingAdmin(address(nodes, other), **settings) as bearer:
            assert TOPIC in [topic.name for topic in bearer.list_topics()]

    eventually(log_in)
    with BlockingAdmin(address(nodes, other), **nodes.client(SHOP)) as admin:
        # An active controller that is Apache Kafka's looks for the token in a cache that is filled
        # a moment after the record is committed.
        eventually(partial(admin.expire_delegation_token, token.hmac))
    assert has_come_to(ErrorCode.SASL_AUTHENTICATION_FAILED, partial(refusal_of, log_in)), (
        "an expired token is taken"
    )
