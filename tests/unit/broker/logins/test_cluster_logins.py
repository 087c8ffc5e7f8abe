"""Three nodes that log in to each other, brokers by SCRAM and controllers by PLAIN, in virtual
time.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.broker.one_error import one_error
from log_service.common.access import NODE_ADVICE
from log_service.common.errors import ConfigError, KafkaError
from log_service.common.secrets import SecretText
from log_service.config.authorizer_keys import STANDARD_AUTHORIZER
from log_service.config.client_security import TokenEndpointConfig
from log_service.config.server import parse_server_properties
from log_service.metadata.access import ScramUser
from log_service.metadata.access_records import credential_record
from log_service.security.sasl.scram_argument import parse_scram_argument
from tests.helpers.cluster import Cluster, host_of, node_properties, replicate_records, tell_cluster
from tests.unit.broker.logins.login_story import Guest, scram_user
from tests.unit.security.sasl.issuer import unsigned

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
        | {
            "listeners": ",".join(
                f"{name}://{host_of(node_id)}:{port}" for name, port in LISTENERS.items()
            )
        }
        | GUARDED
        | named
        for node_id in IDS
    }


LISTENERS = {"PLAINTEXT": 9092, "INSIDE": 9094, "CONTROLLER": 9093}
USER = parse_scram_argument(
    "SCRAM-SHA-256=[name=node,password=node-secret,salt=MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3A=]"
)
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
    logins = cluster.brokers[node_id].logins
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


def test_a_node_that_comes_as_the_wrong_user_is_named_by_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = (
        'username="alice" password="alice-secret" user_node="node-secret" user_alice="alice-secret"'
    )
    nodes = files(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:node")
    nodes[3]["listener.name.controller.plain.sasl.jaas.config"] = (
        f"{PACKAGE}.plain.PlainLoginModule required {wrong};"
    )

    async def story(cluster: Cluster) -> None:
        for node_id in IDS:
            cluster.format(node_id, more_records=USERS)
        await cluster.start(1, 2)
        await cluster.leader()
        config, texts = cluster.config(3)
        broker = Broker(cluster.world.node_env(host_of(3)), config, static_texts=texts)
        with (
            pytest.raises(KafkaError, match=f"this node comes as User:alice; {NODE_ADVICE}"),
            one_error(),
        ):
            async with trio.open_nursery() as nursery:
                await nursery.start(broker.run)

    tell_cluster(story, nodes, is_started=False)
    refusing = [line for line in caplog.messages if line.startswith("User:alice from ")]
    assert 0 < len(refusing) <= 2, "each of the others says it once"
    assert all(
        line.endswith(f". If it is a node of this cluster: {NODE_ADVICE}") for line in refusing
    )
    refused = [
        line for line in caplog.messages if "refuses this node, which comes as User:alice" in line
    ]
    assert 0 < len(refused) <= 2, "once for each of the others"


def test_logins_between_nodes_that_end_are_repeated() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await started(cluster)
        await replicate_records(cluster, leader)
        await trio.sleep(30)
        logins = cluster.brokers[leader].logins
        assert logins is not None
        meter = logins.handlers["CONTROLLER"].meters["PLAIN"]
        assert meter.repeated_success_total >= 2
        assert (meter.expired_total, meter.repeated_failure_total) == (0, 0)
        assert cluster.unfenced(leader) == list(IDS)

    tell_cluster(story, files(connections_max_reauth_ms="5000"), is_started=False)


def test_node_with_another_password_is_not_let_in() -> None:
    strange = files()
    strange[3]["listener.name.controller.plain.sasl.jaas.config"] = PLAIN.replace(
        'password="node-secret"', 'password="wrong"'
    )

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
        ("sasl.mechanism.controller.protocol", "OAUTHBEARER", "enables PLAIN"),
        (
            "sasl.mechanism.controller.protocol",
            "DIGEST-MD5",
            "by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
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
    with pytest.raises(
        ConfigError, match=r"listener\.name\.controller\.plain\.sasl\.jaas\.config is missing"
    ):
        parse_server_properties(texts)


# Decoys


async def first_of(cluster: Cluster, node_id: int, name: str) -> bytes:
    """Return what a node sends at the beginning of a login, behind its nonce."""
    connection = await cluster.world.client_env().network.connect(
        host_of(node_id), LISTENERS["INSIDE"]
    )
    client = Guest(connection)
    assert (await client.handshake("SCRAM-SHA-256")).error_code == 0
    told = await client.authenticate(f"n,,n={name},r=abc".encode())
    client.close()
    return told.auth_bytes.partition(b",")[2]


def test_unknown_users_look_the_same_on_all_nodes_and_after_others_change() -> None:
    """A node never shows whether a user exists.

    Two nodes respond alike, and so does one after another user's password changed, or after a
    restart.
    """

    async def story(cluster: Cluster) -> None:
        await started(cluster)
        before = {
            (each, name): await first_of(cluster, each, name)
            for each in IDS
            for name in ("mallory", "node")
        }
        assert len({before[each, "mallory"] for each in IDS}) == 1
        assert len({before[each, "node"] for each in IDS}) == 1
        assert before[1, "mallory"] != before[1, "node"]
        clear = Guest(
            await cluster.world.client_env().network.connect(host_of(1), LISTENERS["PLAINTEXT"])
        )
        for name, salt in (("aaron", "z"), ("node", "y"), ("zoe", "x")):
            request = scram_user(name, "node-secret", salt=salt.encode() * 26)
            assert (await clear.ask(request, 0)).results[0].error_code == 0
        await trio.sleep(1)
        assert await first_of(cluster, 2, "node") != before[2, "node"], (
            "a password that was set again has another salt"
        )
        assert {await first_of(cluster, each, "mallory") for each in IDS} == {before[1, "mallory"]}
        await cluster.stop(3)
        await cluster.start(3)
        assert await first_of(cluster, 3, "mallory") == before[1, "mallory"]

    tell_cluster(story, files(), is_started=False)


# By tokens

TOKEN_FILE = Path("/tokens/node.jwt")
OAUTH = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"
BY_TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.controller.sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.mechanism.controller.protocol": "OAUTHBEARER",
    "listener.name.inside.oauthbearer.sasl.jaas.config": OAUTH,
    "listener.name.controller.oauthbearer.sasl.jaas.config": OAUTH,
    "sasl.login.callback.handler.class": f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.unsecured.tokens.allowed": "true",
    "sasl.oauthbearer.token.endpoint.url": f"file://{TOKEN_FILE}",
    "sasl.oauthbearer.allowed.urls": f"file://{TOKEN_FILE}",
}


def with_tokens(**more: str) -> dict[int, dict[str, str]]:
    return {node_id: texts | BY_TOKENS | more for node_id, texts in files().items()}


def write_tokens(cluster: Cluster, lifetime_s: int, name: str = "node") -> None:
    """Do what keeps the token files fresh."""
    for node_id in cluster.files:
        env = cluster.world.node_env(host_of(node_id))
        now_s = env.clock.wall_ms() // 1_000
        env.files.make_directory(TOKEN_FILE.parent)
        env.files.write_atomically(
            TOKEN_FILE, unsigned(sub=name, iat=now_s, exp=now_s + lifetime_s).encode() + b"\n"
        )


def test_nodes_log_in_to_each_other_by_tokens_from_a_file_and_again_with_fresh_ones() -> None:
    async def story(cluster: Cluster) -> None:
        write_tokens(cluster, 20)
        leader = await started(cluster)
        await replicate_records(cluster, leader)
        for _ in range(4):  # longer than the first token holds
            write_tokens(cluster, 20)
            await trio.sleep(10)
        logins = cluster.brokers[leader].logins
        assert logins is not None
        for listener in ("CONTROLLER", "INSIDE"):
            meter = logins.handlers[listener].meters["OAUTHBEARER"]
            assert meter.repeated_success_total >= 2
            assert (meter.expired_total, meter.failure_total, meter.repeated_failure_total) == (
                0,
                0,
                0,
            )
        assert cluster.unfenced(leader) == list(IDS)

    tell_cluster(story, with_tokens(), is_started=False)


@pytest.mark.parametrize(
    ("key", "text", "complaint"),
    [
        (
            "sasl.oauthbearer.token.endpoint.url",
            "",
            "has no token; set sasl.oauthbearer.token.endpoint.url",
        ),
        (
            "sasl.oauthbearer.allowed.urls",
            "file:///elsewhere",
            "does not stand in sasl.oauthbearer.allowed.urls",
        ),
        ("sasl.oauthbearer.jwt.retriever.class", "com.example.Own", "names a Java class"),
        ("sasl.login.callback.handler.class", "com.example.Own", "names a Java class"),
    ],
)
def test_tokens_of_its_own_that_a_node_does_not_start_with(
    key: str, text: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_server_properties(with_tokens(**{key: text})[1])


def test_token_comes_from_an_endpoint_for_the_id_and_secret_of_this_node() -> None:
    url, prefix = "https://issuer.example/token", "sasl.oauthbearer."
    named = {
        f"{prefix}token.endpoint.url": url,
        f"{prefix}allowed.urls": url,
        f"{prefix}client.credentials.client.id": "general",
        f"listener.name.inside.oauthbearer.{prefix}client.credentials.client.id": "node",
        f"{prefix}client.credentials.client.secret": "planted",
        f"{prefix}scope": "logs",
    }
    config, _ = parse_server_properties(with_tokens(**named)[1])
    endpoint = TokenEndpointConfig(
        url=url, client_id="node", client_secret=SecretText("planted"), scope="logs"
    )
    assert config.inter_broker_login is not None
    assert (config.inter_broker_login.endpoint, config.inter_broker_login.token) == (endpoint, None)
    assert config.controller_login is not None
    assert config.controller_login.endpoint == replace(endpoint, client_id="general")
    assert "planted" not in repr(config)
    with pytest.raises(
        ConfigError, match=rf"issuer\.example/token, which does not stand in {prefix}allowed\.urls"
    ):
        parse_server_properties(
            with_tokens(**named | {f"{prefix}allowed.urls": "https://issuer.example"})[1]
        )


def test_url_of_an_endpoint_with_a_user_in_it_is_refused_unshown() -> None:
    url = "https://user:planted@issuer.example/token"
    with pytest.raises(ConfigError, match="has a user in it") as caught:
        parse_server_properties(
            with_tokens(
                **{"sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.allowed.urls": url}
            )[1]
        )
    assert "planted" not in str(caught.value)
