"""Runs a node of Apache Kafka that refuses strangers.

It has listeners with TLS and logins, an authorizer, and delegation tokens.

``alice`` may do nothing until an ACL says so; ``admin`` is a super user. The plaintext listener is
the node's own.
"""

from pathlib import Path

from tests.helpers.authority import Authority
from tests.helpers.ports import free_ports
from tests.integration.kafka_node import KafkaNode

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
ALICE, ALICE_PASSWORD = "alice", "alice-secret"


class SecureKafka:
    """The node with its addresses.

    They are ``sasl`` (PLAIN and SCRAM), ``ssl`` (asks for certificates) and ``sasl_ssl``.
    """

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "authority")
        self.server = self.authority.issue("kafka")
        ports = dict(
            zip(("sasl", "ssl", "sasl_ssl", "plain", "controller"), free_ports(5), strict=True)
        )
        self.sasl, self.ssl, self.sasl_ssl = (
            f"127.0.0.1:{ports[name]}" for name in ("sasl", "ssl", "sasl_ssl")
        )
        users = f'user_{ADMIN}="{ADMIN_PASSWORD}" user_{ALICE}="{ALICE_PASSWORD}"'
        logins: dict[str, str] = {}
        for listener in ("sasl", "tls_sasl"):
            prefix = f"listener.name.{listener}"
            logins |= {
                f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f"{prefix}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
                f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
                f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            }
        self.node = KafkaNode(
            directory / "node",
            properties={
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['controller']}",
                "listeners": ",".join(
                    [
                        f"PLAINTEXT://127.0.0.1:{ports['plain']}",
                        f"CONTROLLER://127.0.0.1:{ports['controller']}",
                        f"SASL://{self.sasl}",
                        f"TLS://{self.ssl}",
                        f"TLS_SASL://{self.sasl_ssl}",
                    ]
                ),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,TLS_SASL:SASL_SSL",
                "inter.broker.listener.name": "PLAINTEXT",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:ANONYMOUS;User:{ADMIN};User:CN=operator",
                "delegation.token.secret.key": "the-secret-of-the-cluster",
                "ssl.client.auth": "required",
                **self.server.properties(),
                **logins,
            },
        )
        self.node.port = ports["plain"]

    def as_user(
        self, name: str = ADMIN, password: str = ADMIN_PASSWORD, mechanism: str = "PLAIN"
    ) -> dict[str, str]:
        """Return the settings of a client that logs in without TLS."""
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_username": name,
            "sasl_password": password,
        }

    def with_certificate(self, name: str) -> dict[str, str]:
        """Return the settings of a client that shows a certificate of that common name."""
        issued = self.authority.issue(name)
        return {
            "security_protocol": "SSL",
            "ssl_ca": str(self.authority.truststore),
            "ssl_keystore_type": "PEM",
            "ssl_keystore_location": str(issued.keystore),
        }
