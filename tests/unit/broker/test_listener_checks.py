"""A client's security is not that of the listener.

Each client soon hears what the listener speaks, and does not try until its time is over.
"""

from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.client import Admin, ErrorCode, KafkaError
from log_service.rpc.connection import Destination
from tests.helpers.authority import Authority
from tests.unit.broker.configured_brokers import configured
from tests.unit.broker.context import HOST, PORT, Story
from tests.unit.broker.logins.login_story import PACKAGE

PORTS = {"PLAINTEXT": PORT, "SSL": 9095, "SASL_PLAINTEXT": 9096, "SASL_SSL": 9097}
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "alice-secret"}
JAAS = f'{PACKAGE}.plain.PlainLoginModule required user_alice="alice-secret";'
SOON_S = 3.0
WITHOUT_TLS = (
    "speaks Kafka's protocol without TLS: set security_protocol to PLAINTEXT or SASL_PLAINTEXT"
)
WITH_TLS = "speaks TLS: set security_protocol to SSL or SASL_SSL"
WITH_LOGIN = "takes no request without a login: set security_protocol to SASL_SSL.* one of PLAIN"
WITHOUT_LOGIN = "its listener has no logins: set security_protocol=PLAINTEXT or SSL"


def properties(authority: Authority) -> dict[str, str]:
    issued = authority.issue("node", (HOST,))
    names = {protocol: protocol.replace("_", "-") for protocol in PORTS}
    jaas = {f"listener.name.{name.lower()}.plain.sasl.jaas.config": JAAS for name in names.values()}
    return jaas | {
        "listeners": ",".join(
            f"{names[protocol]}://{HOST}:{port}" for protocol, port in PORTS.items()
        ),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for protocol, name in names.items()
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_text,
        "ssl.keystore.certificate.chain": issued.chain_text,
    }


def settings(protocol: str, authority: Authority) -> dict[str, Any]:
    tls = {"ssl_ca": authority.truststore.read_text()} if protocol.endswith("SSL") else {}
    return {"security_protocol": protocol} | tls | (LOGIN if protocol.startswith("SASL") else {})


@pytest.mark.parametrize(
    ("listener", "client", "told"),
    [
        ("PLAINTEXT", "SSL", WITHOUT_TLS),
        ("PLAINTEXT", "SASL_SSL", WITHOUT_TLS),
        ("PLAINTEXT", "SASL_PLAINTEXT", WITHOUT_LOGIN),
        ("SSL", "PLAINTEXT", WITH_TLS),
        ("SSL", "SASL_PLAINTEXT", WITH_TLS),
        ("SSL", "SASL_SSL", WITHOUT_LOGIN),
        ("SASL_PLAINTEXT", "PLAINTEXT", WITH_LOGIN),
        ("SASL_PLAINTEXT", "SSL", WITHOUT_TLS),
        ("SASL_PLAINTEXT", "SASL_SSL", WITHOUT_TLS),
        ("SASL_SSL", "PLAINTEXT", WITH_TLS),
        ("SASL_SSL", "SASL_PLAINTEXT", WITH_TLS),
        ("SASL_SSL", "SSL", WITH_LOGIN),
        *((each, each, None) for each in PORTS),
    ],
)
def test_a_client_hears_soon_what_the_listener_speaks(
    tmp_path: Path, listener: str, client: str, told: str | None
) -> None:
    authority = Authority(tmp_path)

    async def story(node: Story) -> None:
        server = f"{HOST}:{PORTS[listener]}"
        async with Admin(
            server, env=node.world.client_env(), **settings(client, authority)
        ) as admin:
            began = trio.current_time()
            if told is None:
                assert await admin.list_topics() is not None
                return
            with pytest.raises(KafkaError, match=told) as error:
                await admin.list_topics()
            assert error.value.code in {
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                ErrorCode.ILLEGAL_SASL_STATE,
            }
            assert trio.current_time() - began < SOON_S

    configured(story, properties(authority))


def test_a_client_that_has_spoken_tls_asks_no_other_node_in_the_clear(tmp_path: Path) -> None:
    """A node that is gone may end handshakes behind a proxy, and stays among the brokers for a
    while.
    """
    authority = Authority(tmp_path)

    async def story(node: Story) -> None:
        server = f"{HOST}:{PORTS['SSL']}"
        async with Admin(
            server, env=node.world.client_env(), **settings("SSL", authority)
        ) as admin:
            await admin.list_topics()
            other = admin.cluster.pool.channel(Destination(host=HOST, port=PORTS["PLAINTEXT"]))
            for _ in range(5):
                with pytest.raises(KafkaError) as error:
                    await other.connect()
                assert WITHOUT_TLS not in str(error.value)

    configured(story, properties(authority))
