"""A node with TLS listeners serves nothing in the clear.

It refuses impossible settings at the start.
"""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from log_service.broker.protection import Protection
from log_service.common.clock import SystemClock
from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.storage.files import RealFiles
from tests.helpers.authority import Authority, Issued
from tests.sim import MemoryNetwork

ALONE = "node.id=1\nlisteners=SSL://127.0.0.1:1\nsecurity.inter.broker.protocol=SSL\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def protection(text: str) -> Protection:
    env = NodeEnv(clock=SystemClock(), rng=Random(1), network=MemoryNetwork(), files=RealFiles(1))
    return Protection(env, parse_server_properties(text)[0])


def stores(issued: Issued) -> str:
    return "".join(f"{name}={text}\n" for name, text in issued.properties().items())


def test_a_listener_in_the_clear_speaks_on_the_bare_stream() -> None:
    made = protection("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:1")
    assert made.secure_of("PLAINTEXT") is None
    assert (made.between_brokers, made.to_controllers) == (None, None)


def test_a_listener_with_tls_has_its_own_side_of_it(authority: Authority) -> None:
    made = protection(ALONE + stores(authority.issue("node")))
    assert made.secure_of("SSL") is not None
    assert made.between_brokers is None, "a node alone connects to no other"


def test_nodes_connect_to_each_other_as_their_listeners_are_protected(authority: Authority) -> None:
    text = (
        "node.id=1\nprocess.roles=broker,controller\nlisteners=PLAINTEXT://h:1,INSIDE://h:2,CONTROLLER://h:3\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:SSL,CONTROLLER:SSL\ninter.broker.listener.name=INSIDE\n"
        "controller.quorum.voters=1@h:3,2@i:3\n"
    )
    made = protection(text + stores(authority.issue("node")))
    assert made.secure_of("PLAINTEXT") is None
    assert made.secure_of("INSIDE") is not None
    assert made.secure_of("CONTROLLER") is not None
    assert made.between_brokers is not None
    assert made.to_controllers is not None


def test_a_broker_that_is_no_controller_connects_to_controllers_as_their_listener_is_protected(
    authority: Authority,
) -> None:
    text = (
        "node.id=4\nprocess.roles=broker\nlisteners=PLAINTEXT://h:1\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL\ncontroller.quorum.voters=1@h:3,2@i:3\n"
    )
    made = protection(text + stores(authority.issue("node")))
    assert made.between_brokers is None
    assert made.to_controllers is not None


def test_a_broker_that_does_not_know_how_its_controllers_are_protected_is_refused() -> None:
    text = (
        "node.id=4\nprocess.roles=broker\nlisteners=SSL://h:1\nlistener.security.protocol.map=SSL:SSL\nsecurity.inter.broker.protocol=SSL\n"
        "controller.quorum.voters=1@h:3,2@i:3\n"
    )
    with pytest.raises(ConfigError, match="listener CONTROLLER has no security protocol"):
        protection(text)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("", "a listener with TLS needs a key store"),
        (
            "ssl.keystore.type=PEM\nssl.keystore.location=/nowhere.pem",
            "listener SSL: ssl.keystore.location names /nowhere.pem, which cannot",
        ),
    ],
)
def test_a_listener_without_a_key_is_refused_by_name(change: str, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        protection(ALONE + change)
    assert named in str(raised.value)


def test_clients_cannot_be_asked_for_certificates_where_nobody_is_trusted(
    authority: Authority,
) -> None:
    text = (
        ALONE
        + f"ssl.client.auth=required\nssl.keystore.type=PEM\nssl.keystore.location={authority.issue('node').keystore}"
    )
    with pytest.raises(
        ConfigError, match=r"every public authority would be trusted; set ssl\.truststore\.location"
    ):
        protection(text)


def test_a_certificate_that_has_expired_is_refused_with_its_date(authority: Authority) -> None:
    with pytest.raises(ConfigError, match=r"has expired on \d{4}-\d\d-\d\d"):
        protection(ALONE + stores(authority.issue("node", lasts=timedelta(days=-1))))
