"""Protects an installation of ``tidelog up --secure``, by TLS with client certificates and by ACLs.

A certificate is both the key of the encryption and the login, so that there is no password to keep,
and no user has to exist before the first node starts. Nodes and the operator are super users. The
platform may only do what its pipelines need (``grants``). People log in to Dagster's UI with a
password instead. Each node checks it by SCRAM, on a further listener at 127.0.0.1.

These files in the data directory are for its owner alone:

    security/authority.pem, authority.key     the local authority
    security/nodes/NAME.pem                   each node's key and certificate
    security/clients/NAME.pem, .properties    of the operator and the platform, for Kafka's tools
    security/clients/ui-login.properties      how the UI checks a password; it holds no secret
    security/services/NAME.pem                certificates of services. Their keys lie elsewhere.

While the installation runs, ``keep_certificates`` renews those of nodes, operator and platform
before they expire. Nodes and clients read changed files again.

An installation that was secured once stays secured: a later start without ``--secure`` does not
undo it.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trio

from log_service.common.errors import StorageError
from log_service.config.properties import parse_properties
from log_service.supervisor.authority import (
    CERTIFICATE_FILE,
    LocalAuthority,
    certificate_part,
    close_to_writers,
    end_of,
    make_private_directory,
    write_private,
)

DIRECTORY = "security"
LOG_DIRECTORY = "logs"
"""Beside the logs of the services themselves."""
OPERATOR, PLATFORM, NODE = "operator", "platform", "node"
REGISTRY, REST, CONSOLE = "registry", "rest", "console"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognized, not bound
SECURE_LISTENER, LOGIN_LISTENER = "SSL", "LOGIN"
LOGIN_FILE = "ui-login.properties"
LOGIN_PORTS = 2000
"""The distance from a node's port for clients to its port for passwords."""
LOGIN_MECHANISM = "SCRAM-SHA-512"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MAPPING = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
"""The user is the common name of the certificate."""
RENEWAL_CHECK_S = 6 * 3600.0
"""How often the supervisor looks for certificates to renew.

A certificate is renewed four months before its end, or earlier.
"""
KINDS = {"nodes": "node", "clients": "client", "services": "service"}
"""The directories of certificates, and the owners of the certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationProtection:
    """The files that protect one installation. ``protect`` makes them."""

    directory: Path

    def client_file(self, name: str) -> Path:
        """Return the properties file of a client."""
        return self.directory / "clients" / f"{name}.properties"

    @property
    def login_file(self) -> Path:
        """The properties file by which Dagster's UI checks passwords at the nodes."""
        return self.directory / "clients" / LOGIN_FILE

    def write_login_file(self, servers: Sequence[str]) -> Path:
        """Write ``login_file``, and return its path.

        ``servers`` are the addresses, ``host:port``, at which nodes check passwords.

        Raises:
            StorageError: the file cannot be written.
        """
        lines = [
            (
                "# Written by `tidelog up --secure`: where the Dagster UI has the passwords of"
                " users checked."
            ),
            f"bootstrap.servers={','.join(servers)}",
            "security.protocol=SASL_SSL",
            f"sasl.mechanism={LOGIN_MECHANISM}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.directory / CERTIFICATE_FILE}",
        ]
        write_private(self.login_file, "\n".join([*lines, ""]).encode())
        return self.login_file

    def registry_properties(self) -> dict[str, str]:
        """Return the properties that secure the schema registry.

        Clients log in with a user's password, or with a certificate of the installation.
        """
        return {
            **self._service_properties(REGISTRY, "kafkastore."),
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": MAPPING,
            "authentication.method": "basic,mtls",
            "authorizer": "acl",
            "super.users": f"User:{NODE};User:{OPERATOR}",
        }

    def registry_access(self, name: str) -> dict[str, str]:
        """Return the properties of a node's connections to the registry.

        The node logs in with its own certificate.
        """
        return {
            "confluent.ssl.keystore.type": "PEM",
            "confluent.ssl.keystore.location": str(self.directory / "nodes" / f"{name}.pem"),
            "confluent.ssl.truststore.type": "PEM",
            "confluent.ssl.truststore.location": str(self.directory / CERTIFICATE_FILE),
        }

    def rest_properties(self) -> dict[str, str]:
        """Return the properties that secure the REST proxy.

        Clients log in with a user's password, because the proxy passes their login on.
        """
        own = self._service_properties(REST, "client.")
        trusted = {key: value for key, value in own.items() if key.startswith("ssl.truststore.")}
        return {
            **own,
            **{f"schema.registry.{key}": value for key, value in trusted.items()},
            "authentication.method": "basic",
        }

    def _service_properties(self, name: str, prefix: str) -> dict[str, str]:
        """Return the properties of an HTTP service: its certificate, client, and password check.

        The keys of the client begin with ``prefix``.
        """
        client = parse_properties(self.client_file(name).read_text())
        login = parse_properties(self.login_file.read_text())
        return {
            **{f"{prefix}{key}": value for key, value in client.items()},
            **{f"login.{key}": value for key, value in login.items()},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "clients" / f"{name}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / CERTIFICATE_FILE),
        }

    def node_properties(self, name: str) -> dict[str, str]:
        """Return the properties that secure a node."""
        return {
            "listener.security.protocol.map": f"SSL:SSL,CONTROLLER:SSL,{LOGIN_LISTENER}:SASL_SSL",
            "listener.name.login.sasl.enabled.mechanisms": LOGIN_MECHANISM,
            f"listener.name.login.{LOGIN_MECHANISM.lower()}.sasl.jaas.config": (
                f"{SCRAM_MODULE} required;"
            ),
            "inter.broker.listener.name": SECURE_LISTENER,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "nodes" / f"{name}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / CERTIFICATE_FILE),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": MAPPING,
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{NODE};User:{OPERATOR}",
            "audit.log.path": str(self.directory.parent / LOG_DIRECTORY / f"{name}-authorizer.log"),
        }


def login_server(client_port: int) -> str:
    """Return the address at which the node with this client port checks passwords."""
    return f"127.0.0.1:{client_port + LOGIN_PORTS}"


def is_protected(data_directory: Path) -> bool:
    """Whether an installation was secured."""
    return (data_directory / DIRECTORY / CERTIFICATE_FILE).is_file()


def utc_now() -> datetime:
    """Return the time by the system's clock."""
    return datetime.now(UTC)


def protect(
    data_directory: Path, host: str, nodes: Sequence[str], now: datetime | None = None
) -> InstallationProtection:
    """Create the missing files of an installation's protection, and renew expiring certificates.

    ``now`` None means the system's time. Other accounts cannot enter the directories of nodes and
    of logs, because their files have data that ACLs keep from clients. Other accounts cannot write
    in the data directory either, or they could replace the authority by their own.

    Raises:
        StorageError: a file cannot be read or written.
    """
    directory = (data_directory / DIRECTORY).resolve()
    data_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    close_to_writers(data_directory)
    authority, now = LocalAuthority(directory), now or utc_now()
    for name in (*nodes, "logs"):
        make_private_directory(data_directory / name)
    for node in nodes:
        authority.keep(directory / "nodes" / f"{node}.pem", NODE, hosts_of(host), now)
    protection = InstallationProtection(directory=directory)
    for client, hosts in clients(host).items():
        keystore = directory / "clients" / f"{client}.pem"
        authority.keep(keystore, client, hosts, now)
        write_private(
            protection.client_file(client),
            client_properties(
                keystore, authority.certificate_path, by="tidelog up --secure"
            ).encode(),
        )
    return protection


def clients(host: str) -> dict[str, Sequence[str]]:
    """Return the clients that have a certificate, with the host names in it.

    The registry and the REST proxy are clients of the brokers, and servers of their own clients.
    The console is a server of browsers. Operator and platform are no servers, so they have no host
    names.
    """
    servers = dict.fromkeys((REGISTRY, REST, CONSOLE), hosts_of(host))
    return {OPERATOR: (), PLATFORM: (), **servers}


def renew(data_directory: Path, host: str, now: datetime) -> list[str]:
    """Renew the certificates of nodes and clients that expire soon, and return their names.

    A name is that of the file without ``.pem``.

    Raises:
        StorageError: a file cannot be read or written.
    """
    authority = _present_authority(data_directory)
    directory = authority.directory
    nodes = [(path, NODE, hosts_of(host)) for path in sorted((directory / "nodes").glob("*.pem"))]
    others = [
        (directory / "clients" / f"{client}.pem", client, hosts)
        for client, hosts in clients(host).items()
    ]
    return [
        path.stem
        for path, name, hosts in (*nodes, *others)
        if authority.keep(path, name, hosts, now)
    ]


async def keep_certificates(
    data_directory: Path,
    host: str,
    say: Callable[[str], None],
    now: Callable[[], datetime] = utc_now,
) -> None:
    """Renew certificates before they expire, until cancelled.

    If a certificate cannot be written, that is reported, and the next check tries again.
    """
    while True:
        await trio.sleep(RENEWAL_CHECK_S)
        try:
            names = renew(data_directory, host, now())
        except StorageError as error:
            say(f"certificates could not be renewed: {error}")
            continue
        if names:
            say(f"certificates were renewed: {', '.join(names)}")


def _present_authority(data_directory: Path) -> LocalAuthority:
    """Return the existing authority. Do not create one, because no client would trust it.

    Raises:
        StorageError: the authority is missing.
    """
    if not is_protected(data_directory):
        raise StorageError(
            f"{data_directory / DIRECTORY / CERTIFICATE_FILE} is missing: put it back"
        )
    return LocalAuthority((data_directory / DIRECTORY).resolve())


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedClient:
    """The files of one service, and the time at which its certificate expires."""

    properties_path: Path
    until: datetime


def issue_client(data_directory: Path, name: str, out: Path, now: datetime) -> IssuedClient:
    """Write a service's key, certificate and client settings into ``out``, for their owner alone.

    ``security/services`` gets a copy of the certificate, without the key.

    Raises:
        StorageError: a file cannot be read or written.
    """
    authority, out = _present_authority(data_directory), out.resolve()
    directory = authority.directory
    if not out.is_dir():
        make_private_directory(out)
    keystore, trusted, properties = (
        out / f"{name}.pem",
        out / CERTIFICATE_FILE,
        out / f"{name}.properties",
    )
    pem = authority.issue(name, (), now)
    write_private(trusted, authority.certificate_path.read_bytes())
    write_private(keystore, pem)
    write_private(
        properties, client_properties(keystore, trusted, by="tidelog certificates issue").encode()
    )
    make_private_directory(directory / "services")
    write_private(directory / "services" / f"{name}.pem", certificate_part(pem))
    return IssuedClient(properties_path=properties, until=end_of(keystore))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCertificate:
    """A certificate that the authority has signed.

    Its subject is a node, one of the installation's clients, or a service.
    """

    name: str
    kind: str
    until: datetime
    path: Path


def known_certificates(data_directory: Path) -> Iterator[KnownCertificate]:
    """Yield the certificates that the authority has signed and the installation knows of.

    Raises:
        StorageError: a file cannot be read.
    """
    for folder, kind in KINDS.items():
        for path in sorted((data_directory / DIRECTORY / folder).glob("*.pem")):
            yield KnownCertificate(
                name=NODE if kind == "node" else path.stem, kind=kind, until=end_of(path), path=path
            )


def hosts_of(host: str) -> tuple[str, ...]:
    """Return the names and addresses by which clients reach a node that binds to ``host``."""
    own = (socket.gethostname(),) if host in ANY_ADDRESS else (host,)
    return tuple(dict.fromkeys((*LOCAL_NAMES, *own)))


def client_properties(keystore: Path, authority: Path, *, by: str) -> str:
    """Return the settings of a client that logs in with the certificate in ``keystore``.

    ``by`` is the command that writes them, for a comment.
    """
    lines = [
        f"# Written by `{by}`; Apache Kafka's tools take it as --command-config.",
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={keystore}",
    ]
    return "\n".join([*lines, ""])
