"""Runs clusters that refuse strangers.

They have SASL_SSL on every listener and an authorizer, and only the nodes are super users.

Brokers log in to each other by SCRAM-SHA-512, as users that formatting writes; to controllers they
log in by PLAIN. Clients use the listener of the brokers. ``User:shop`` may produce,
``User:billing`` may consume, ``User:operator`` may look and make topics, once ``grant_least`` has
made their ACLs; ``User:stranger`` has a password and no right.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from log_service.client import AclBinding, BlockingAdmin
from tests.helpers.authority import Authority, Issued
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes, Ways

SCRAM = "SCRAM-SHA-512"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
NODE, SHOP, BILLING, OPERATOR, STRANGER = "node", "shop", "billing", "operator", "stranger"
USERS = (NODE, SHOP, BILLING, OPERATOR, STRANGER)
TOPIC, GROUP = "orders", "billing"


def password_of(user: str) -> str:
    """The password that formatting gives a user."""
    return f"{user}-planted-secret"


class SecureNodes(ClusterNodes):
    """Three nodes; ``keystores`` are the files that each node reads its certificate from."""

    def __init__(
        self,
        product: str | Mapping[int, str],
        directory: Path,
        *,
        ways: Ways | None = None,
        is_mixed: bool = False,
        **more: str,
    ) -> None:
        self.authority = Authority(directory / "authority")
        users = [
            word
            for user in USERS
            for word in ("--add-scram", f"{SCRAM}=[name={user},password={password_of(user)}]")
        ]
        super().__init__(
            product,
            directory,
            ways=ways,
            is_mixed=is_mixed,
            login=self.client(NODE),
            format_arguments=users,
        )
        self.keystores: dict[int, Path] = {}
        for node_id in NODE_IDS:
            issued = self.authority.issue(f"node-{node_id}")
            self.keystores[node_id] = issued.keystore
            self.properties[node_id] |= self._protection(issued) | {
                name.replace("_", "."): text for name, text in more.items()
            }
            for key in ("listeners", "advertised.listeners"):
                self.properties[node_id][key] = self.properties[node_id][key].replace(
                    "PLAINTEXT://", "CLIENTS://"
                )

    def _protection(self, issued: Issued) -> dict[str, str]:
        password = password_of(NODE)
        own = f'username="{NODE}" password="{password}"'
        return {
            **issued.properties(),
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.clients.sasl.enabled.mechanisms": SCRAM,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {own};",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_MODULE} required {own} user_{NODE}="{password}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{NODE}",
            "delegation.token.secret.key": "the-secret-of-the-cluster",
        }

    def client(self, user: str, password: str | None = None) -> dict[str, Any]:
        """Settings of our client that logs in as a user."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_ca": str(self.authority.truststore),
            "sasl_mechanism": SCRAM,
            "sasl_username": user,
            "sasl_password": password or password_of(user),
        }

    def librdkafka(self, user: str) -> dict[str, Any]:
        """The same of confluent-kafka."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.truststore),
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": password_of(user),
        }

    def python(self, user: str) -> dict[str, Any]:
        """The same of kafka-python; aiokafka takes it with an ``ssl_context``."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": SCRAM,
            "sasl_plain_username": user,
            "sasl_plain_password": password_of(user),
        }

    def java_file(self, user: str) -> Path:
        """The same of Apache Kafka's own tools, as a file for ``--command-config``."""
        jaas = f'{SCRAM_MODULE} required username="{user}" password="{password_of(user)}";'
        texts = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.jaas.config": jaas,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.truststore),
        }
        path = self.directory / f"{user}.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in texts.items()))
        return path

    def grant_least(self) -> None:
        """Make the ACLs of the three clients: each may do what it is there for."""
        granted = [
            *((SHOP, "topic", TOPIC, operation) for operation in ("write", "describe")),
            (SHOP, "transactional_id", SHOP, "write"),
            (SHOP, "transactional_id", SHOP, "describe"),
            *((BILLING, "topic", TOPIC, operation) for operation in ("read", "describe")),
            (BILLING, "group", GROUP, "read"),
            *((OPERATOR, "topic", TOPIC, operation) for operation in ("create", "describe")),
            *(
                (OPERATOR, "cluster", "kafka-cluster", operation)
                for operation in ("describe", "describe_configs", "alter_configs")
            ),
        ]
        bindings = [
            AclBinding(
                resource_type=kind,
                name=name,
                pattern_type="prefixed" if kind in ("group", "transactional_id") else "literal",
                principal=f"User:{user}",
                operation=operation,
            )
            for user, kind, name, operation in granted
        ]
        with BlockingAdmin(self.bootstrap, **self.login) as admin:
            admin.create_acls(bindings)

    def renew_certificate(self, node_id: int) -> int:
        """Put a new certificate in the place of a node's, at one stroke, and return its serial
        number.
        """
        issued = self.authority.issue(f"node-{node_id}")
        issued.keystore.replace(self.keystores[node_id])
        return issued.certificate.serial_number
