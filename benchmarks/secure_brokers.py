"""Runs brokers with TLS and logins, and brokers with an authorizer, for both products alike.

They live from round to round. A secure broker has three listeners: in the clear, with TLS (SSL),
and with TLS and a login by SCRAM-SHA-512 (SASL_SSL). Certificates are ECDSA P-256, of an authority
that is made for the run. Unmeasured work, such as creating topics, goes over the listener in the
clear.

A guarded broker has an authorizer and runs beside one without. It has ``OTHER_ACL_COUNT`` ACLs
about other users. Its clients are ``User:ANONYMOUS`` and no super users: one ACL with a prefix lets
them use the topics of the benchmark.
"""

import contextlib
import ssl
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError, Beside, BrokerProcess, free_port
from benchmarks.measured import Measured
from benchmarks.rounds import SUSPENDED_SESSION_MS, Bench
from tests.helpers.authority import Authority, Issued

SSL, SASL_SSL = "SSL", "SASL_SSL"
PROTOCOLS = (SSL, SASL_SSL)
LISTENER_NAMES = {SSL: "ENCRYPTED", SASL_SSL: "LOGIN"}
SCRAM, ITERATIONS = "SCRAM-SHA-512", 4_096
USER, PASSWORD = "bench", "the-password-of-bench"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "allow_everyone_if_no_acl_found": "true",
}
TOPIC_PREFIX = "bench-"
"""The prefix of the topics that ``BrokerProcess.topic`` makes."""
OTHER_ACL_COUNT, ACLS_PER_REQUEST = 1_000, 250
ADMIN_S, KNOWN_S = 60.0, 30.0
"""The longest time of an admin request, and until a change is known."""
AnyMeasured = TypeVar("AnyMeasured", bound=Measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureBroker(Generic[AnyMeasured]):
    """A broker with TLS, or a cluster.

    ``broker`` has the address in the clear, ``addresses`` the others by their protocol.
    """

    broker: AnyMeasured
    addresses: Mapping[str, str]
    authority: Path
    """The certificate that signed the broker's own, PEM."""

    def client_settings(self, protocol: str) -> dict[str, str]:
        """Return librdkafka's settings of a listener beside its address.

        Underscores stand for dots.
        """
        login = (
            {"sasl_mechanism": SCRAM, "sasl_username": USER, "sasl_password": PASSWORD}
            if protocol == SASL_SSL
            else {}
        )
        return {"security_protocol": protocol, "ssl_ca_location": str(self.authority), **login}

    def context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the broker and shows no certificate."""
        return ssl.create_default_context(cafile=str(self.authority))


@contextlib.contextmanager
def secure_brokers(bench: Bench) -> Iterator[dict[str, SecureBroker[BrokerProcess]]]:
    """Start one of each product, with a user who can log in."""
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        issued = Authority(root / "authority").issue("node")
        found = {}
        for number, (name, prepare) in enumerate(bench.kinds.items()):
            beside = [
                Beside(
                    name=LISTENER_NAMES[protocol],
                    protocol=protocol,
                    address=f"127.0.0.1:{free_port()}",
                )
                for protocol in PROTOCOLS
            ]
            installation = prepare(
                _empty(root, number), beside=beside, **_secure_properties(issued)
            )
            broker = stack.enter_context(installation.running())
            found[name] = SecureBroker(
                broker=broker,
                addresses={each.protocol: each.address for each in beside},
                authority=issued.truststore,
            )
            add_user(found[name])
        yield found


@contextlib.contextmanager
def guarded_brokers(bench: Bench) -> Iterator[dict[str, tuple[BrokerProcess, BrokerProcess]]]:
    """Start two of each product: one without an authorizer and one with it."""
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        found = {}
        for number, (name, prepare) in enumerate(bench.kinds.items()):
            open_one = prepare(
                _empty(root, 2 * number), broker_session_timeout_ms=SUSPENDED_SESSION_MS
            )
            guarded = prepare(
                _empty(root, 2 * number + 1),
                broker_session_timeout_ms=SUSPENDED_SESSION_MS,
                **AUTHORIZER,
            )
            found[name] = (
                stack.enter_context(open_one.running()),
                stack.enter_context(guarded.running()),
            )
            add_acls(found[name][1].address)
        yield found


@contextlib.contextmanager
def others_suspended(chosen: BrokerProcess, all_of_them: Iterable[BrokerProcess]) -> Iterator[None]:
    """Leave the machine to one of the brokers."""
    with contextlib.ExitStack() as stack:
        for each in all_of_them:
            if each is not chosen:
                stack.enter_context(each.suspended())
        yield


def _empty(root: Path, number: int) -> Path:
    directory = root / f"broker-{number}"
    directory.mkdir()
    return directory


def _secure_properties(issued: Issued) -> dict[str, str]:
    return {**secure_listeners(issued), "broker_session_timeout_ms": SUSPENDED_SESSION_MS}


def secure_listeners(issued: Issued) -> dict[str, str]:
    """Return the properties of the listeners with TLS: their certificates, and how users log in."""
    login = f"listener.name.{LISTENER_NAMES[SASL_SSL].lower()}."
    return {
        **issued.properties(),
        f"{login}sasl.enabled.mechanisms": SCRAM,
        f"{login}{SCRAM.lower()}.sasl.jaas.config": JAAS,
    }


def add_user(secure: SecureBroker[AnyMeasured]) -> None:
    """Give the user a password, and wait until the broker lets it in."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    admin = AdminClient({"bootstrap.servers": secure.broker.address, "log_level": ERRORS_ONLY})
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())]
    )[USER].result(ADMIN_S)
    settings = {
        name.replace("_", "."): text for name, text in secure.client_settings(SASL_SSL).items()
    }
    client = AdminClient(
        {"bootstrap.servers": secure.addresses[SASL_SSL], "log_level": ERRORS_ONLY, **settings}
    )
    deadline = time.monotonic() + KNOWN_S
    while True:
        try:
            client.list_topics(timeout=5)
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise BenchmarkError(f"user {USER} cannot log in: {error}") from error
        else:
            return


def add_acls(address: str) -> None:
    """Add the ACLs, and wait until they are known.

    They decide the first request after them.
    """
    admin = AdminClient({"bootstrap.servers": address, "log_level": ERRORS_ONLY})
    acls = [
        _acl(TOPIC_PREFIX, ResourcePatternType.PREFIXED, "User:ANONYMOUS"),
        *(
            _acl(f"team-{number}", _pattern(number), f"User:service-{number % 100}")
            for number in range(OTHER_ACL_COUNT)
        ),
    ]
    for start in range(0, len(acls), ACLS_PER_REQUEST):
        for created in admin.create_acls(acls[start : start + ACLS_PER_REQUEST]).values():
            created.result(ADMIN_S)


def _pattern(number: int) -> ResourcePatternType:
    return ResourcePatternType.PREFIXED if number % 2 else ResourcePatternType.LITERAL


def _acl(name: str, pattern: ResourcePatternType, principal: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, pattern, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW
    )
