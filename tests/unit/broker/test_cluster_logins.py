"""Three nodes that log in to each other, brokers by SCRAM and controllers by PLAIN, in virtual time."""

import pytest
import trio

from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.metadata.access import ScramUser
from log_service.metadata.access_records import credential_record
from log_service.security.sasl.scram_argument import parse_scram_argument
from tests.helpers.cluster import Cluster, host_of, node_properties, replicate_records, tell_cluster

IDS = (1, 2, 3)
PACKAGE = "org.apache.kafka.common.security"
NODE = 'username="node" password="node-secret"'
PLAIN = f'{PACKAGE}.plain.PlainLoginModule required {NODE} user_node="node-secret" user_alice="alice-secret";'
SCRAM = f"{PACKAGE}.scram.ScramLoginModule required {NODE};"
GUARDED = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.inside.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.controller.plain.sasl.jaas.config": PLAIN,
}


def files(**more: str) -> dict[int, dict[str, str]]:
    named = {name.replace("_", "."): text for name, text in more.items()}
    return {
        node_id: node_properties(node_id, IDS)
        | {"listeners": ",".join(f"{name}://{host_of(node_id)}:{port}" for name, port in LISTENERS.items())}
        | GUARDED
        | named
        for node_id in IDS
    }


LISTENERS = {"PLAINTEXT": 9092, "INSIDE": 9094, "CONTROLLER": 9093}
USER = parse_scram_argument("SCRAM-SHA-256=[name=node,password=node-secret,salt=c2FsdA==]")
USERS = [credential_record(ScramUser(USER.mechanism, USER.name), USER.credential(lambda bits: 0))]


async def started(cluster: Cluster) -> int:
    for node_id in cluster.files:
        cluster.format(node_id, more_records=USERS)
    with trio.fail_after(60):
        await cluster.start()
    leader = await cluster.leader()
    await cluster.until(lambda: cluster.unfenced(leader) == list(IDS))
    return leader


def logins_of(cluster: Cluster, node_id: int, listener: str) -> int:
    logins = cluster.brokers[node_id]._logins
    assert logins is not None
    return sum(meter.success_total for meter in logins.handlers[listener].meters.values())


def test_nodes_log_in_to_brokers_by_their_mechanism() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await started(cluster)
        await replicate_records(cluster, leader)
        assert all(logins_of(cluster, node_id, "INSIDE") for node_id in IDS)

    tell_cluster(story, files(), is_started=False)


def test_nodes_log_in_to_controllers_by_their_mechanism() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await started(cluster)
        assert logins_of(cluster, leader, "CONTROLLER") >= 2

    tell_cluster(story, files(), is_started=False)


def test_logins_between_nodes_that_end_are_repeated() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await started(cluster)
        await replicate_records(cluster, leader)
        await trio.sleep(30)
        logins = cluster.brokers[leader]._logins
        assert logins is not None
        meter = logins.handlers["CONTROLLER"].meters["PLAIN"]
        assert meter.repeated_success_total >= 2
        assert (meter.expired_total, meter.repeated_failure_total) == (0, 0)
        assert cluster.unfenced(leader) == list(IDS)

    tell_cluster(story, files(connections_max_reauth_ms="5000"), is_started=False)


def test_node_with_another_password_is_not_let_in() -> None:
    strange = files()
    strange[3]["listener.name.controller.plain.sasl.jaas.config"] = PLAIN.replace('password="node-secret"', 'password="wrong"')

    async def story(cluster: Cluster) -> None:
        for node_id in IDS:
            cluster.format(node_id, more_records=USERS)
        with trio.fail_after(60):
            await cluster.start(1, 2)
        cluster.nursery.start_soon(cluster.start, 3)
        await trio.sleep(30)
        assert cluster.unfenced(1) == [1, 2]

    tell_cluster(story, strange, is_started=False)


@pytest.mark.parametrize(
    ("key", "text", "complaint"),
    [
        ("sasl.mechanism.inter.broker.protocol", "", "GSSAPI"),
        ("sasl.mechanism.controller.protocol", "GSSAPI", "GSSAPI"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN", "enables SCRAM-SHA-256"),
        ("sasl.mechanism.controller.protocol", "OAUTHBEARER", "by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ],
)
def test_what_a_node_does_not_start_with(key: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_server_properties({**files()[1], key: text})


def test_broker_that_dials_controllers_needs_its_own_jaas_text_alone() -> None:
    texts = {
        **node_properties(4, IDS, "broker"),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": PLAIN,
    }
    config, _ = parse_server_properties(texts)
    assert config.controller_login is not None
    assert config.controller_login.mechanism == "PLAIN"
    del texts["listener.name.controller.plain.sasl.jaas.config"]
    with pytest.raises(ConfigError, match=r"listener\.name\.controller\.plain\.sasl\.jaas\.config is missing"):
        parse_server_properties(texts)
