"""How ``tidelog up --secure`` protects an installation: TLS with certificates on both sides, and ACLs.

A certificate is both the key of the encryption and the login, so that there is no password to keep, and no user has to be there before the
first node starts. Nodes and the operator are super users; the platform may do what its pipelines need, and nothing else (``grants``).

Below the directory of the data, for its owner alone:

    security/authority.pem, authority.key     the local authority
    security/nodes/NAME.pem                   each node's key and certificate
    security/clients/NAME.pem, .properties    of the operator and the platform; the file is one that Kafka's tools take

An installation that was secured once stays so: a later start without ``--secure`` does not open it again.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from log_service.supervisor.authority import CERTIFICATE_FILE, LocalAuthority, write_private

DIRECTORY = "security"
OPERATOR, PLATFORM, NODE = "operator", "platform", "node"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not bound
SECURE_LISTENER = "SSL"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MAPPING = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
"""The user is the common name of the certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationProtection:
    """The files that protect one installation. Made by ``protect``."""

    directory: Path

    def client_file(self, name: str) -> Path:
        """Return the properties file of a client."""
        return self.directory / "clients" / f"{name}.properties"

    def node_properties(self, name: str) -> dict[str, str]:
        """Return what a node's properties file says of its protection."""
        return {
            "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": SECURE_LISTENER,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "nodes" / f"{name}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / CERTIFICATE_FILE),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": MAPPING,
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{NODE};User:{OPERATOR}",
        }


def is_protected(data_directory: Path) -> bool:
    """Whether an installation was secured."""
    return (data_directory / DIRECTORY / CERTIFICATE_FILE).is_file()


def protect(data_directory: Path, host: str, nodes: Sequence[str]) -> InstallationProtection:
    """Have all files of an installation's protection; certificates near their end are made anew.

    Raises:
        StorageError: a file cannot be read or written.
    """
    directory = (data_directory / DIRECTORY).resolve()
    authority, now = LocalAuthority(directory), datetime.now(UTC)
    for node in nodes:
        authority.keep(directory / "nodes" / f"{node}.pem", NODE, hosts_of(host), now)
    protection = InstallationProtection(directory=directory)
    for client in (OPERATOR, PLATFORM):
        keystore = directory / "clients" / f"{client}.pem"
        authority.keep(keystore, client, (), now)
        write_private(protection.client_file(client), client_properties(keystore, authority.certificate_path).encode())
    return protection


def hosts_of(host: str) -> tuple[str, ...]:
    """Return the names and addresses under which clients dial a node that binds to ``host``."""
    own = (socket.gethostname(),) if host in ANY_ADDRESS else (host,)
    return tuple(dict.fromkeys((*LOCAL_NAMES, *own)))


def client_properties(keystore: Path, authority: Path) -> str:
    """Return the settings of a client that shows the certificate in ``keystore``."""
    lines = [
        "# Written by `tidelog up --secure`; Apache Kafka's tools take it as --command-config.",
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={keystore}",
    ]
    return "\n".join([*lines, ""])
