"""franz-go logs in over TLS, with a client certificate, and by every login that a node takes.

ACLs let each user do one thing and nothing else.
"""

import base64
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from log_service.client import AclBinding, BlockingAdmin, NewTopic, ScramUser
from tests.helpers.authority import Authority, Issued
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.ports import free_ports
from tests.integration.clients_of_a_cluster import franz_go
from tests.integration.login_frames import PACKAGE
from tests.unit.security.sasl.issuer import jwk, key_set, token

pytestmark = pytest.mark.timeout(600)  # a first build of the program fetches and compiles franz-go

CERTIFICATE, OPEN, LOGIN = "CERTIFICATE", "OPEN", "LOGIN"
OPERATOR, SHOP, STRANGER, ANONYMOUS = "operator", "shop", "stranger", "ANONYMOUS"
TOPIC, SALARIES = "orders", "salaries"
SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
COUNT = 5
TRY_SECONDS = 60.0


def password_of(user: str) -> str:
    return f"{user}-secret"


def token_of(user: str, lifetime_s: int = 600) -> str:
    now_s = int(time.time())
    return token("rsa", sub=user, aud="logs", iat=now_s - 5, exp=now_s + lifetime_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A node with three listeners, and the program that tries each of them."""

    ports: dict[str, int]
    authority: Authority
    certificates: dict[str, Issued]
    program: Sequence[str]
    directory: Path

    def settings_of(self, way: str, user: str) -> tuple[str, dict[str, Any]]:
        """Return the listener, and what the program is told."""
        said: dict[str, Any] = {"authority": str(self.authority.truststore)}
        if way == "TLS":
            return OPEN, said
        if way == "mTLS":
            own = self.certificates[user]
            return CERTIFICATE, {**said, "certificate": str(own.chain), "key": str(own.key)}
        if way == "OAUTHBEARER":
            return LOGIN, {**said, "mechanism": way, "token": token_of(user)}
        if way == "delegation token":
            return LOGIN, {
                **said,
                "mechanism": SCRAM_512,
                "isToken": True,
                **self.delegation_token(user),
            }
        return LOGIN, {**said, "mechanism": way, "user": user, "password": password_of(user)}

    def delegation_token(self, user: str) -> dict[str, str]:
        """Return a token that the user has made, as a login."""
        settings = {
            "security_protocol": "SASL_SSL",
            "ssl_ca": str(self.authority.truststore),
            "sasl_mechanism": SCRAM_512,
        }
        with BlockingAdmin(
            self.address(LOGIN), **settings, sasl_username=user, sasl_password=password_of(user)
        ) as admin:
            made = admin.create_delegation_token()
        return {"user": made.token_id, "password": base64.b64encode(made.hmac.reveal()).decode()}

    def address(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def tried(self, listener: str, said: dict[str, Any], topic: str, group: str) -> list[str]:
        """Let the program write and read as it may, and return what it tells."""
        file = self.directory / f"{group}.json"
        file.write_text(json.dumps(said))
        command = [
            *self.program,
            f"--security={file}",
            "try",
            self.address(listener),
            topic,
            group,
            str(COUNT),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TRY_SECONDS, check=False
        )
        assert done.returncode == 0, done
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    program = franz_go(directory)
    authority = Authority(directory / "authority")
    certificates = {name: authority.issue(name, sans=()) for name in (OPERATOR, SHOP, STRANGER)}
    ports = dict(zip((CERTIFICATE, OPEN, LOGIN), free_ports(3), strict=True))
    keys = directory / "keys.json"
    keys.write_bytes(key_set(jwk("rsa")))
    plain_users = " ".join(f'user_{name}="{password_of(name)}"' for name in (SHOP, STRANGER))
    properties = {
        **authority.issue("node").properties(),
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(
            f"{name}://localhost:{port}" for name, port in ports.items()
        ),
        "listener.security.protocol.map": f"{CERTIFICATE}:SSL,{OPEN}:SSL,{LOGIN}:SASL_SSL",
        "inter.broker.listener.name": CERTIFICATE,
        "listener.name.certificate.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM_256},{SCRAM_512},OAUTHBEARER",
        "listener.name.login.plain.sasl.jaas.config": f"{PACKAGE}.plain.PlainLoginModule required {plain_users};",
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
        "listener.name.login.oauthbearer.sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.login.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.allowed.urls": f"file://{keys}",
        "sasl.oauthbearer.expected.audience": "logs",
        "delegation.token.secret.key": "the-secret-of-the-cluster",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:node;User:{OPERATOR}",
    }
    own = certificates[OPERATOR]
    stores = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(own.keystore)}
    operator: dict[str, Any] = {"security_protocol": "SSL", "ssl_ca": str(own.truststore), **stores}
    with BrokerProcess(directory, properties=properties):
        node = Guarded(
            ports=ports,
            authority=authority,
            certificates=certificates,
            program=program,
            directory=directory,
        )
        with BlockingAdmin(node.address(CERTIFICATE), **operator) as admin:
            admin.create_topics(
                [
                    NewTopic(name=name, partition_count=1, replication_factor=1)
                    for name in (TOPIC, SALARIES)
                ]
            )
            grant(admin)
        yield node


def grant(admin: BlockingAdmin) -> None:
    """Give the users their passwords, and the shop its rights."""
    for user in (SHOP, STRANGER):
        for mechanism in (SCRAM_256, SCRAM_512):
            admin.set_scram_users(
                [ScramUser(name=user, password=password_of(user), mechanism=mechanism)]
            )
    admin.create_acls(
        [
            AclBinding(
                resource_type=kind,
                name=name,
                pattern_type=pattern,
                principal=f"User:{user}",
                operation=operation,
            )
            for user in (SHOP, ANONYMOUS)
            for kind, name, pattern, operation in (
                ("topic", TOPIC, "literal", "write"),
                ("topic", TOPIC, "literal", "read"),
                ("group", "shop", "prefixed", "read"),
            )
        ]
    )


WAYS = ("TLS", "mTLS", "PLAIN", SCRAM_256, SCRAM_512, "OAUTHBEARER", "delegation token")


@pytest.mark.parametrize("way", WAYS)
def test_a_user_writes_and_reads_what_acls_allow(guarded: Guarded, way: str) -> None:
    assert guarded.tried(*guarded.settings_of(way, SHOP), TOPIC, f"shop {way}") == ["W", "G"]


@pytest.mark.parametrize("way", WAYS)
def test_a_user_is_refused_a_topic_that_no_acl_allows(guarded: Guarded, way: str) -> None:
    written, read = guarded.tried(*guarded.settings_of(way, SHOP), SALARIES, f"shop's other {way}")
    assert written.startswith("X write TOPIC_AUTHORIZATION_FAILED")
    assert read.startswith("X read")
    assert "TOPIC_AUTHORIZATION_FAILED" in read


def test_a_user_is_refused_a_group_that_no_acl_allows(guarded: Guarded) -> None:
    written, read = guarded.tried(*guarded.settings_of(SCRAM_512, SHOP), TOPIC, "billing")
    assert written == "W"
    assert "GROUP_AUTHORIZATION_FAILED" in read


@pytest.mark.parametrize("way", ["mTLS", SCRAM_512])
def test_a_user_without_acls_is_refused_everything(guarded: Guarded, way: str) -> None:
    written, read = guarded.tried(*guarded.settings_of(way, STRANGER), TOPIC, f"strange {way}")
    assert "AUTHORIZATION_FAILED" in written
    assert "AUTHORIZATION_FAILED" in read


@pytest.mark.parametrize("way", ["PLAIN", SCRAM_256, SCRAM_512])
def test_a_wrong_password_is_refused(guarded: Guarded, way: str) -> None:
    listener, said = guarded.settings_of(way, SHOP)
    (told,) = guarded.tried(listener, {**said, "password": "wrong"}, TOPIC, f"wrong {way}")
    assert told.startswith("X connect SASL_AUTHENTICATION_FAILED")


def test_a_token_that_has_expired_is_refused(guarded: Guarded) -> None:
    listener, said = guarded.settings_of("OAUTHBEARER", SHOP)
    (told,) = guarded.tried(listener, {**said, "token": token_of(SHOP, -100)}, TOPIC, "late")
    assert told.startswith("X connect")


def test_a_client_without_a_certificate_is_refused(guarded: Guarded) -> None:
    _, said = guarded.settings_of("TLS", SHOP)
    (told,) = guarded.tried(CERTIFICATE, said, TOPIC, "bare")
    assert told.startswith("X connect")
    assert "certificate required" in told
