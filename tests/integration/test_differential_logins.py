"""Logins are served as Apache Kafka serves them, frame by frame.

The frames come before, during and after the login, and when it is repeated.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import pytest

from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from log_service.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from log_service.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from log_service.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from log_service.security.sasl.credentials import ScramMechanism
from tests.integration.differential import Cluster, Duel, normalise
from tests.integration.login_frames import (
    ALICE,
    ALICE_PASSWORD,
    CAROL,
    CAROL_PASSWORD,
    LOGIN_PROPERTIES,
    VERSIONS,
    LoginWire,
    alter_users,
    plain,
    scram_change,
)

PROPERTIES = {
    **LOGIN_PROPERTIES,
    "delegation.token.secret.key": "the-secret-of-the-cluster",
    "listener.name.plaintext.plain.connections.max.reauth.ms": "600000",
    "listener.name.plaintext.scram-sha-256.connections.max.reauth.ms": "1",
}
"""A login by PLAIN may be repeated; one by SCRAM-SHA-256 has ended by the time of the next request;
one by SCRAM-SHA-512 holds for ever.
"""

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SCENES: dict[str, Callable[[LoginWire], list[Any]]] = {
    "versions, then a login": lambda wire: [
        wire.told(VERSIONS, 4)["error_code"],
        wire.handshake(),
        wire.authenticate(plain()),
    ],
    "versions twice": lambda wire: [
        wire.told(VERSIONS, 4)["error_code"],
        wire.told(VERSIONS, 4),
        wire.end(),
    ],
    "unknown version of versions, then a login": lambda wire: [
        wire.versions(99),
        wire.handshake(),
        wire.authenticate(plain()),
    ],
    "odd software name, then a login": lambda wire: [
        wire.told(ApiVersionsRequest(client_software_name="!", client_software_version="1"), 3)[
            "error_code"
        ],
        wire.handshake(),
        wire.authenticate(plain()),
    ],
    "metadata first": lambda wire: [wire.told(MetadataRequest(topics=None), 12), wire.end()],
    "authenticate first": lambda wire: [wire.authenticate(plain()), wire.end()],
    "rubbish first": lambda wire: [wire.raw(b"GET / HTTP/1.1\r\n\r\n"), wire.end()],
    "unknown version of handshake": lambda wire: [
        wire.header(ApiKey.SASL_HANDSHAKE, 2, b"\0\5PLAIN"),
        wire.end(),
    ],
    "mechanism that is not enabled": lambda wire: [wire.handshake("GSSAPI"), wire.end()],
    "mechanism in small letters": lambda wire: [wire.handshake("plain"), wire.end()],
    "bare tokens": lambda wire: [
        wire.handshake(version=0),
        wire.bare(plain()),
        wire.told(VERSIONS, 4)["error_code"],
    ],
    "bare token that is refused": lambda wire: [
        wire.handshake(version=0),
        wire.bare(plain(password="wrong")),
        wire.end(),
    ],
    "authenticate 0": lambda wire: [wire.handshake(), wire.authenticate(plain(), 0)],
    "authenticate 1": lambda wire: [wire.handshake(), wire.authenticate(plain(), 1)],
    "unknown version of authenticate": lambda wire: [
        wire.handshake(),
        wire.header(ApiKey.SASL_AUTHENTICATE, 3, b"\0\0\0\0"),
        wire.end(),
    ],
    "versions in the middle": lambda wire: [
        wire.handshake(),
        wire.told(VERSIONS, 4)["error_code"],
        wire.end(),
    ],
    "handshake in the middle": lambda wire: [wire.handshake(), wire.handshake(), wire.end()],
    "metadata 1 in the middle": lambda wire: [
        wire.handshake(),
        wire.told(MetadataRequest(topics=None), 1),
        wire.end(),
    ],
    "wrong password": lambda wire: [
        wire.handshake(),
        wire.authenticate(plain(password="wrong")),
        wire.end(),
    ],
    "unknown user": lambda wire: [wire.handshake(), wire.authenticate(plain("nobody")), wire.end()],
    "no user": lambda wire: [wire.handshake(), wire.authenticate(plain("")), wire.end()],
    "no password": lambda wire: [
        wire.handshake(),
        wire.authenticate(plain(password="")),
        wire.end(),
    ],
    "two tokens": lambda wire: [wire.handshake(), wire.authenticate(b"a\0b"), wire.end()],
    "five tokens": lambda wire: [wire.handshake(), wire.authenticate(b"a\0b\0c\0d\0e"), wire.end()],
    "own authorization id": lambda wire: [
        wire.handshake(),
        wire.authenticate(plain(authorization="alice")),
    ],
    "other authorization id": lambda wire: [
        wire.handshake(),
        wire.authenticate(plain(authorization="bob")),
        wire.end(),
    ],
    "authenticate after the login": lambda wire: [
        wire.log_in(),
        wire.authenticate(plain()),
        wire.told(VERSIONS, 4)["error_code"],
    ],
    "login again": lambda wire: [
        wire.log_in(),
        wire.log_in(),
        wire.told(VERSIONS, 4)["error_code"],
    ],
    "login again with another password": lambda wire: [
        wire.log_in(),
        wire.log_in(password="wrong"),
        wire.end(),
    ],
    "login again as another": lambda wire: [
        wire.log_in(),
        wire.handshake(),
        wire.authenticate(plain()),
        wire.end(),
    ],
    "login again with another mechanism": lambda wire: [
        wire.log_in(),
        wire.handshake("SCRAM-SHA-512"),
        wire.authenticate(b"n,,n=admin,r=abc"),
        wire.end(),
    ],
    "request in the middle of a login again": lambda wire: [
        wire.log_in(),
        wire.handshake(),
        wire.told(VERSIONS, 4)["error_code"],
        wire.end(),
    ],
}


def scene(cluster: Cluster, play: Callable[[LoginWire], list[Any]]) -> list[Any]:
    with LoginWire(cluster.bootstrap) as wire:
        return play(wire)


@pytest.mark.parametrize("name", SCENES)
def test_frames(duel: Duel, name: str) -> None:
    duel.compare_told(lambda cluster: scene(cluster, SCENES[name]))


def add_carol(cluster: Cluster) -> Any:
    with LoginWire(cluster.bootstrap) as wire:
        wire.log_in()
        return [
            wire.told(alter_users(scram_change(CAROL, CAROL_PASSWORD, mechanism)), 0)
            for mechanism in ScramMechanism
        ]


def until_carol_is_there(cluster: Cluster) -> None:
    """Kafka responds before its broker has the new credentials."""
    for _ in range(100):
        with LoginWire(cluster.bootstrap) as wire:
            if wire.scram(SHA_512, CAROL, CAROL_PASSWORD)[1:2] == [True]:
                return
    pytest.fail(f"{cluster.bootstrap} never knew the user")


@pytest.fixture
def users(duel: Duel) -> Duel:
    """Both sides have the user carol, with both mechanisms."""
    duel.compare_told(add_carol)
    for cluster in duel.clusters.sides():
        until_carol_is_there(cluster)
    return duel


SCRAM_SCENES: dict[str, Callable[[LoginWire], list[Any]]] = {
    "right password": lambda wire: [
        wire.scram(SHA_512, CAROL, CAROL_PASSWORD),
        wire.told(VERSIONS, 4)["error_code"],
    ],
    "wrong password": lambda wire: [wire.scram(SHA_512, CAROL, "wrong"), wire.end()],
    "wrong nonce": lambda wire: [
        wire.scram(
            SHA_512, CAROL, CAROL_PASSWORD, lambda token: token.replace(b"r=client", b"r=klient")
        ),
        wire.end(),
    ],
    "y in the header": lambda wire: [
        wire.handshake("SCRAM-SHA-512"),
        wire.authenticate(b"y,,n=carol,r=abc"),
        wire.end(),
    ],
    "channel binding": lambda wire: [
        wire.handshake("SCRAM-SHA-512"),
        wire.authenticate(b"p=tls-unique,,n=carol,r=abc"),
        wire.end(),
    ],
    "other authorization id": lambda wire: [
        wire.handshake("SCRAM-SHA-512"),
        wire.authenticate(b"n,a=bob,n=carol,r=abc"),
        wire.end(),
    ],
    "malformed": lambda wire: [
        wire.handshake("SCRAM-SHA-512"),
        wire.authenticate(b"hello"),
        wire.end(),
    ],
    "login that has ended": lambda wire: [
        wire.scram(SHA_256, CAROL, CAROL_PASSWORD),
        wire.later().told(MetadataRequest(topics=None), 12),
        wire.end(),
    ],
    "login that has ended, again": lambda wire: [
        wire.scram(SHA_256, CAROL, CAROL_PASSWORD),
        wire.scram(SHA_256, CAROL, CAROL_PASSWORD),
        wire.later().told(MetadataRequest(topics=None), 12),
        wire.end(),
    ],
    "login that does not end is not repeated": lambda wire: [
        wire.scram(SHA_512, CAROL, CAROL_PASSWORD),
        wire.handshake("SCRAM-SHA-512"),
        wire.told(VERSIONS, 4)["error_code"],
    ],
}


@pytest.mark.parametrize("name", SCRAM_SCENES)
def test_scram(users: Duel, name: str) -> None:
    users.compare_told(lambda cluster: scene(cluster, SCRAM_SCENES[name]))


def test_unknown_user_is_refused_a_step_later_than_by_kafka(users: Duel) -> None:
    """Kafka refuses an unknown user at the first message.

    Here the refusal comes at the last, with the same code and text.
    """
    users.compare_told(
        lambda cluster: scene(
            cluster, lambda wire: [wire.scram(SHA_512, "nobody", "x"), wire.end()]
        )
    )


CHANGES: dict[str, list[Any]] = {
    "two users": [scram_change("u1", "x", SHA_256), scram_change("u2", "x", SHA_512)],
    "twice": [
        scram_change("u3", "x", SHA_256),
        scram_change("u3", "x", SHA_512),
        scram_change("u4", "x", SHA_256),
    ],
    "set and removed": [
        scram_change("u3", "x", SHA_256),
        ScramCredentialDeletion(name="u3", mechanism=1),
    ],
    "no name": [scram_change("", "x", SHA_256)],
    "unknown mechanism": [scram_change("u5", "x", SHA_256, mechanism=3)],
    "too few iterations": [scram_change("u6", "x", SHA_256, iterations=4095)],
    "too many iterations": [scram_change("u7", "x", SHA_256, iterations=16385)],
    "removal of what is not there": [ScramCredentialDeletion(name="u8", mechanism=1)],
    "removal by an unknown mechanism": [ScramCredentialDeletion(name="u9", mechanism=9)],
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_users(duel: Duel, name: str) -> None:
    def play(wire: LoginWire) -> list[Any]:
        wire.log_in()
        return [wire.told(alter_users(*CHANGES[name]), 0)]

    duel.compare_told(lambda cluster: scene(cluster, play))


def test_users_are_described(users: Duel) -> None:
    def play(wire: LoginWire) -> list[Any]:
        wire.log_in()
        asked = ([CAROL], [CAROL, CAROL], ["nobody", CAROL])
        told = [
            wire.ask(
                DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names]),
                0,
            )
            for names in asked
        ]
        return [normalise(response) for response in told]

    users.compare_told(lambda cluster: scene(cluster, play))


def play_with_tokens(wire: LoginWire, other: LoginWire) -> list[Any]:
    """Make, renew, show and end tokens, as admin and as alice.

    Return codes, names and differences of times.
    """
    wire.log_in()
    other.log_in(ALICE, ALICE_PASSWORD)
    renewers = [CreatableRenewers(principal_type="User", principal_name=ALICE)]
    made = wire.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=renewers
        ),
        3,
    )
    private = wire.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=9_000
        ),
        3,
    )
    group = [CreatableRenewers(principal_type="Group", principal_name=ALICE)]
    refused = wire.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=group
        ),
        3,
    )
    told: list[Any] = [
        [
            each.error_code,
            each.principal_name,
            each.token_requester_principal_name,
            len(each.token_id),
            len(each.hmac),
        ]
        for each in (made, private, refused)
    ]
    until_tokens(wire, {made.token_id, private.token_id})
    told += [each.max_timestamp_ms - each.issue_timestamp_ms for each in (made, private)]
    told.append(private.expiry_timestamp_ms - private.issue_timestamp_ms)
    for hmac in (made.hmac, private.hmac, b"unknown"):
        told.append(
            other.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1), 2).error_code
        )
    with LoginWire(wire.bootstrap) as third:
        password = base64.b64encode(made.hmac).decode()
        told.append(third.scram(SHA_512, made.token_id, password, is_by_token=True)[:2])
        requests = (
            (CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None), 3),
            (RenewDelegationTokenRequest(hmac=made.hmac), 2),
            (ExpireDelegationTokenRequest(hmac=made.hmac), 2),
            (DescribeDelegationTokenRequest(owners=None), 3),
        )
        told.append([third.ask(request, version).error_code for request, version in requests])
    told.append(len(wire.ask(DescribeDelegationTokenRequest(owners=[]), 3).tokens))
    for hmac, period_ms in ((private.hmac, 0), (made.hmac, -1)):
        told.append(
            other.ask(
                ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), 2
            ).error_code
        )
    until_tokens(wire, {private.token_id})
    told.append(
        other.ask(
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), 2
        ).error_code
    )
    return told


def until_tokens(wire: LoginWire, wanted: set[str]) -> None:
    """Wait until exactly these tokens are shown: Kafka responds before its caches have a change."""
    for _ in range(200):
        if {
            token.token_id
            for token in wire.ask(DescribeDelegationTokenRequest(owners=None), 3).tokens
        } == wanted:
            return
        time.sleep(0.02)
    pytest.fail(f"{wire.bootstrap} never showed these tokens")


def test_delegation_tokens(duel: Duel) -> None:
    def tell(cluster: Cluster) -> list[Any]:
        with LoginWire(cluster.bootstrap) as wire, LoginWire(cluster.bootstrap) as other:
            return play_with_tokens(wire, other)

    duel.compare_told(tell)
