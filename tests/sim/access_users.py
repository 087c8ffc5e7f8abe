"""Users of a simulated cluster that refuses strangers.

They have names, passwords, logins and first rights.

Nodes log in to brokers by SCRAM, as clients do, and to controllers by PLAIN: before the quorum has
its first leader there is no metadata to look a SCRAM user up in. Each password has a number, and
its salt names it, so that what a node knows of a user says which password fits.

A password is salted once in a process, with the fewest iterations that brokers take, and where the
product asks a thread to salt one, the simulated world does it at once.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import trio

from log_service.client import AclBinding
from log_service.client.admin import access as admin_access
from log_service.common.errors import ErrorCode
from log_service.common.secrets import SecretBytes, SecretText
from log_service.metadata.access import ScramUser
from log_service.metadata.access_records import credential_record
from log_service.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.security import login as login_module
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.mechanisms import LoginError
from log_service.security.sasl.scram import (
    MIN_ITERATIONS,
    credential_from,
    random_text,
    salted_password,
)
from log_service.security.sasl.scram_client import SaltingWanted, ScramClient
from tests.sim.node_waits import Line

T = TypeVar("T")

MECHANISM = ScramMechanism.SHA_256
NODE, ADMIN = "node", "admin"
SUPER_USERS = frozenset({f"User:{NODE}", f"User:{ADMIN}"})
STEADY_USERS = ("producer", "member", "reader", "copier", "writer", "committed")
"""Clients whose rights nobody changes: each may do what its work takes, and no more."""
CHANGING_USERS = ("ann", "bob", "eve")
"""Clients whose rights and passwords change all the time."""
ADMINISTERING = frozenset(
    {
        "admin",
        "describer",
        "ends",
        "final",
        "range",
        "watcher",
        "copy-watcher",
        "drainer",
        "operator",
        "left",
    }
)
"""Machines whose clients are the administrator's."""
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2
SESSION_MS = 3_000
"""How long a login with a password holds."""


class Told(NamedTuple):
    """The outcome of a login.

    It has the code of the last response, and the session's time in milliseconds.
    """

    code: ErrorCode
    lifetime_ms: int = 0


def password_of(user: str, number: int = 0) -> str:
    """The password of a user; 0 is the first one."""
    return f"{user}-secret-{number}"


def salt_of(user: str, number: int = 0) -> bytes:
    """The salt of that password."""
    return f"{user} {number}".encode()


def number_of(salt: bytes) -> int:
    """The number of the password that has this salt."""
    return int(salt.decode().rpartition(" ")[2])


_NODE_LOGIN = f'username="{NODE}" password="{password_of(NODE)}"'
_MODULES = "org.apache.kafka.common.security"
PROPERTIES: Mapping[str, str] = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": MECHANISM.mechanism_name,
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.clients.sasl.enabled.mechanisms": MECHANISM.mechanism_name,
    "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required {_NODE_LOGIN};",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required {_NODE_LOGIN} user_{NODE}="{password_of(NODE)}";'
    ),
    "listener.name.clients.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
    "delegation.token.secret.key": "secret-of-tokens",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": ";".join(sorted(SUPER_USERS)),
    "allow.everyone.if.no.acl.found": "false",
}
"""Of every node."""


def first_users() -> list[MetadataRecord]:
    """Return the users that formatting writes."""
    records: list[MetadataRecord] = []
    for user in (NODE, ADMIN, *STEADY_USERS, *CHANGING_USERS):
        salt = salt_of(user)
        salted = salted_once(MECHANISM, SecretText(password_of(user)), salt, MIN_ITERATIONS)
        records.append(
            credential_record(
                ScramUser(MECHANISM, user), credential_from(MECHANISM, salted, salt, MIN_ITERATIONS)
            )
        )
    return records


def steady_rights(topic: str, rows: str, group: str, copy_group: str) -> list[AclBinding]:
    """Return the ACLs of the steady users."""
    granted = [
        ("producer", "topic", topic, "write"),
        ("member", "topic", topic, "read"),
        ("member", "group", group, "read"),
        ("reader", "topic", topic, "read"),
        ("copier", "topic", topic, "read"),
        ("copier", "topic", rows, "write"),
        ("copier", "group", copy_group, "read"),
        ("copier", "transactional_id", "copier-", "write"),
        ("writer", "topic", rows, "write"),
        ("writer", "transactional_id", "writer-", "write"),
        ("committed", "topic", rows, "read"),
    ]
    return [
        AclBinding(
            resource_type=kind,
            name=name,
            principal=f"User:{user}",
            operation=operation,
            pattern_type="prefixed" if kind == "transactional_id" else "literal",
        )
        for user, kind, name, operation in granted
    ]


def login_of(machine: str) -> dict[str, Any]:
    """Return the settings with which the clients on a machine log in."""
    role = machine.partition("@")[0].partition(".")[0]
    name, _, number = role.rpartition("-")
    kind = name if name and number.isdecimal() else role
    user = ADMIN if kind in ADMINISTERING else kind
    assert user == ADMIN or user in STEADY_USERS, f"no user is meant for {machine}"
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": MECHANISM.mechanism_name,
        "sasl_username": user,
        "sasl_password": password_of(user),
    }


async def log_in(
    line: Line, user: str, password: str, rng: Random, *, is_by_token: bool = False
) -> Told:
    """Log in on a connection, be it the first time or again, and return what came of it. The user
    of a token is its id.

    Raises:
        OSError: the connection broke.
        LoginError: the node does not prove that it knows the user.
    """
    begun = await line.ask(
        SaslHandshakeRequest(mechanism=MECHANISM.mechanism_name), HANDSHAKE_VERSION
    )
    if begun.error_code:
        return Told(ErrorCode.of(begun.error_code))
    client = ScramClient(MECHANISM, user, random_text(rng.getrandbits), is_by_token=is_by_token)
    token = client.first()
    while True:
        told = await line.ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)
        if told.error_code:
            return Told(ErrorCode.of(told.error_code))
        wanted = client.evaluate(told.auth_bytes)
        if client.is_complete:
            return Told(ErrorCode.NONE, told.session_lifetime_ms)
        if not isinstance(wanted, SaltingWanted):
            raise LoginError("the node asks for no password")
        token = client.resume(
            salted_once(MECHANISM, SecretText(password), wanted.salt, wanted.iterations)
        )


# What takes long


def salted_once(
    mechanism: ScramMechanism, password: SecretText, salt: bytes, iterations: int
) -> SecretBytes:
    """Salt a password as the product does, once in a process."""
    return _salted(mechanism, password.reveal(), bytes(salt), iterations)


@cache
def _salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> SecretBytes:
    return salted_password(mechanism, SecretText(password), salt, iterations)


async def _at_once(work: Callable[..., T], *arguments: object, **_options: object) -> T:
    await trio.lowlevel.checkpoint()
    return work(*arguments)


RunInThread = Callable[..., Awaitable[Any]]


@contextmanager
def cheap_logins() -> Iterator[None]:
    """Have no thread started, and no password salted twice, by what runs inside."""
    patches: Sequence[tuple[Any, str, Any]] = (
        (trio.to_thread, "run_sync", _at_once),
        (login_module, "salted_password", salted_once),
        (admin_access, "salted_password", salted_once),
    )
    with (
        mock.patch.object(*patches[0]),
        mock.patch.object(*patches[1]),
        mock.patch.object(*patches[2]),
    ):
        yield
