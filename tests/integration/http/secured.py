"""A secured node stands behind registries.

Its users have passwords, certificates or tokens.

The node has two listeners. ``PLAINTEXT`` is the test's own, whose anonymous user may do everything.
``LOGIN`` wants TLS and SCRAM. The registries log in there as ``User:registry``, which has the
rights that ``tidelog up --secure`` gives it.
"""

import base64
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from log_service.client import AclBinding, AclFilter, BlockingAdmin, ScramUser
from log_service.supervisor.grants import REGISTRY_GRANTS
from tests.helpers.authority import Authority, Issued
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.issuer_server import Asked, IssuerServer, serving
from tests.helpers.ports import free_ports
from tests.helpers.registry_process import RegistryProcess
from tests.integration.secure_nodes import SCRAM, SCRAM_MODULE, password_of
from tests.unit.security.sasl.issuer import jwk, key_set, token

ANN, BOB, REGISTRY, OPERATOR = "ann", "bob", "registry", "operator"
USERS = (ANN, BOB, REGISTRY)
AUDIENCE = "schemas"
PATIENCE_S = 30.0
MAPPING = "RULE:^CN=([^,]+)$/$1/L,DEFAULT"
"""Of common names in certificates, which become users in small letters."""


@dataclass(kw_only=True)
class TokenIssuer:
    """An issuer of tokens, whose keys a test may change."""

    server: IssuerServer
    kinds: list[str] = field(default_factory=lambda: ["rsa"])

    def token(self, kind: str = "rsa", **claims: Any) -> str:
        """Return a token that is right, apart from the claims."""
        now_s = int(time.time())
        return token(
            kind,
            **{
                "sub": "tess",
                "aud": AUDIENCE,
                "iss": "https://issuer",
                "iat": now_s - 5,
                "exp": now_s + 600,
                **claims,
            },
        )


@dataclass(frozen=True, kw_only=True)
class Secured:
    """The node, and what clients need."""

    directory: Path
    authority: Authority
    plain: str
    login: str
    issuer: TokenIssuer

    def registry(self, **properties: str) -> RegistryProcess:
        """Return an instance. Instances with the same topic and group are one registry."""
        given = {name.replace("_", "."): text for name, text in properties.items()}
        return RegistryProcess(
            self.directory, self.login, self.context(OPERATOR), **{**self._properties(), **given}
        )

    def _properties(self) -> dict[str, str]:
        own = self.authority.issue("Registry")
        jaas = f'{SCRAM_MODULE} required username="{REGISTRY}" password="{password_of(REGISTRY)}";'
        keys = f"{self.issuer.server.base}/keys"
        return {
            **own.properties(),
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": MAPPING,
            "kafkastore.security.protocol": "SASL_SSL",
            "kafkastore.sasl.mechanism": SCRAM,
            "kafkastore.sasl.jaas.config": jaas,
            "kafkastore.ssl.truststore.type": "PEM",
            "kafkastore.ssl.truststore.location": str(self.authority.truststore),
            "authentication.method": "basic,bearer,mtls",
            "authorizer": "acl",
            "super.users": f"User:{OPERATOR}",
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "sasl.oauthbearer.allowed.urls": keys,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            "session.timeout.ms": "1000",
        }

    def context(
        self, name: str | None = None, authority: Authority | None = None
    ) -> ssl.SSLContext:
        """Return the TLS of a client, which may show a certificate of a common name."""
        context = ssl.create_default_context(cafile=str(self.authority.truststore))
        if name is not None:
            issued: Issued = (authority or self.authority).issue(name, ())
            context.load_cert_chain(issued.keystore)
        return context

    def console_properties(self) -> dict[str, str]:
        """Return the properties of a console over TLS whose people log in as users of the node."""
        return {
            **self.authority.issue("console").properties(),
            "authentication.method": "basic",
            "login.bootstrap.servers": self.login,
            "login.security.protocol": "SASL_SSL",
            "login.sasl.mechanism": SCRAM,
            "login.ssl.truststore.type": "PEM",
            "login.ssl.truststore.location": str(self.authority.truststore),
        }

    def client(
        self,
        registry: RegistryProcess,
        *,
        certificate: str | None = None,
        address: str = "127.0.0.1",
        **headers: str,
    ) -> httpx.Client:
        """Return a client of an instance, from an address of this machine."""
        transport = httpx.HTTPTransport(verify=self.context(certificate), local_address=address)
        return httpx.Client(base_url=registry.url, transport=transport, headers=headers, timeout=30)

    def allow(self, user: str, *rights: str, permission: str = "allow", host: str = "*") -> None:
        """Make ACLs, such as ``write orders`` and ``cluster_action *cluster``."""
        with BlockingAdmin(self.plain) as admin:
            admin.create_acls(
                [binding(user, right, permission=permission, host=host) for right in rights]
            )

    def forbid(self, user: str) -> None:
        """Remove all ACLs of a user."""
        with BlockingAdmin(self.plain) as admin:
            admin.delete_acls([AclFilter(principal=f"User:{user}")])

    def set_password(self, user: str, password: str) -> None:
        """Give a user a password."""
        with BlockingAdmin(self.plain) as admin:
            admin.set_scram_users([ScramUser(name=user, mechanism=SCRAM, password=password)])


def binding(user: str, right: str, *, permission: str = "allow", host: str = "*") -> AclBinding:
    """Return the ACL of a right. The cluster is ``*cluster``, and a name that ends with a star is a
    prefix.
    """
    operation, _, name = right.partition(" ")
    is_prefix = name.endswith("*")
    return AclBinding(
        resource_type="cluster" if name == "*cluster" else "topic",
        name="kafka-cluster" if name == "*cluster" else name.removesuffix("*"),
        pattern_type="prefixed" if is_prefix else "literal",
        principal=f"User:{user}",
        operation=operation,
        permission=permission,
        host=host,
    )


def basic(user: str, password: str | None = None) -> str:
    """Return the header of a login by password."""
    return "Basic " + base64.b64encode(f"{user}:{password or password_of(user)}".encode()).decode()


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.1)


@contextmanager
def secured(directory: Path) -> Iterator[Secured]:
    """Run a secured node and an issuer of tokens."""
    authority, (plain, login) = Authority(directory / "authority"), free_ports(2)
    properties: Mapping[str, str] = {
        **authority.issue("node").properties(),
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},LOGIN://127.0.0.1:{login}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": SCRAM,
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.min.session.timeout.ms": "500",
    }
    kinds = ["rsa"]

    def respond(_request: Asked) -> tuple[int, bytes]:
        return 200, key_set(*(jwk(kind) for kind in kinds))

    with (
        serving(respond) as server,
        BrokerProcess(directory / "node", port=plain, properties=properties),
    ):
        found = Secured(
            directory=directory,
            authority=authority,
            plain=f"127.0.0.1:{plain}",
            login=f"127.0.0.1:{login}",
            issuer=TokenIssuer(server=server, kinds=kinds),
        )
        with BlockingAdmin(found.plain) as admin:
            admin.set_scram_users(
                [
                    ScramUser(name=user, mechanism=SCRAM, password=password_of(user))
                    for user in USERS
                ]
            )
            admin.create_acls(
                [
                    AclBinding(
                        resource_type=kind,
                        name=name,
                        pattern_type=pattern,
                        principal=f"User:{REGISTRY}",
                        operation=operation,
                    )
                    for kind, name, pattern, operations in REGISTRY_GRANTS
                    for operation in operations
                ]
            )
        yield found
