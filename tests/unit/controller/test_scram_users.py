"""AlterUserScramCredentials on the controller, and what a broker tells of the users afterwards.
KIP-554.
"""

from dataclasses import replace

import pytest

from log_service.broker.handlers.scram_users import describe_scram_users
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.secrets import SecretBytes
from log_service.controller.rules.scram_users import alter_scram_users
from log_service.metadata.access import ScramUser
from log_service.metadata.image import EMPTY_IMAGE
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from log_service.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.scram import credential_from
from tests.unit.controller.context import ControllerContext

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALTED = bytes(range(32))


def upsert(
    name: str,
    mechanism: int = SHA_256,
    iterations: int = 4096,
    salt: bytes = b"salt",
    salted: bytes = SALTED,
) -> object:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def delete(name: str, mechanism: int = SHA_256) -> object:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(context: ControllerContext, *changes: object) -> dict[str, int]:
    deletions = [change for change in changes if isinstance(change, ScramCredentialDeletion)]
    upsertions = [change for change in changes if isinstance(change, ScramCredentialUpsertion)]
    response = context.ask(
        AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    )
    assert len({result.user for result in response.results}) == len(response.results)
    assert all(bool(result.error_message) == bool(result.error_code) for result in response.results)
    return {result.user: result.error_code for result in response.results}


def described(context: ControllerContext, *names: str) -> dict[str, object]:
    request = DescribeUserScramCredentialsRequest(
        users=[UserName(name=name) for name in names] or None
    )
    response = describe_scram_users(context.controller.image, request)
    assert response.error_code == 0
    return {
        result.user: result.error_code
        or [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


@pytest.fixture
def context() -> ControllerContext:
    return ControllerContext().start()


def test_users_are_set_changed_and_removed(context: ControllerContext) -> None:
    assert alter(context, upsert("alice"), upsert("bob", SHA_512, 8192, salted=bytes(64))) == {
        "alice": 0,
        "bob": 0,
    }
    assert described(context) == {"alice": [(1, 4096)], "bob": [(2, 8192)]}
    assert alter(context, upsert("alice", iterations=16384), delete("bob", SHA_512)) == {
        "alice": 0,
        "bob": 0,
    }
    assert described(context) == {"alice": [(1, 16384)]}


def test_keys_are_kept_and_never_the_salted_password(context: ControllerContext) -> None:
    alter(context, upsert("alice"))
    kept = context.controller.image.access.scram_credentials[ScramUser(SHA_256, "alice")]
    assert kept == credential_from(SHA_256, SecretBytes(SALTED), b"salt", 4096)
    assert SALTED not in (kept.stored_key.reveal(), kept.server_key.reveal())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("x", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (delete("x", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (delete("x"), ErrorCode.RESOURCE_NOT_FOUND),
        (delete("alice", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
        (upsert("x", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", salt=bytes(1025)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", salted=bytes(31)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", SHA_512), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_what_is_refused_leaves_the_others_alone(
    context: ControllerContext, change: ScramCredentialUpsertion, code: ErrorCode
) -> None:
    alter(context, upsert("alice"))
    expected = {change.name: code, "carol": 0}
    assert alter(context, change, upsert("carol")) == expected
    assert described(context) == {"alice": [(1, 4096)], "carol": [(1, 4096)]}


@pytest.mark.parametrize("count", [2, 3])
def test_user_that_is_named_more_than_once_is_refused(
    context: ControllerContext, count: int
) -> None:
    alter(context, upsert("alice"))
    changes = [delete("alice"), upsert("alice"), upsert("alice", SHA_512, salted=bytes(64))][:count]
    assert alter(context, *changes, upsert("bob")) == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": 0,
    }
    assert described(context) == {"alice": [(1, 4096)], "bob": [(1, 4096)]}


def test_metadata_that_cannot_hold_users_refuses_the_request() -> None:
    with pytest.raises(KafkaError) as caught:
        alter_scram_users(
            replace(EMPTY_IMAGE, features={METADATA_VERSION: 10}),
            AlterUserScramCredentialsRequest(),
        )
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert (
        alter_scram_users(
            replace(EMPTY_IMAGE, features={METADATA_VERSION: 11}),
            AlterUserScramCredentialsRequest(),
        )[0]
        == []
    )


def test_users_are_described_by_name(context: ControllerContext) -> None:
    alter(context, upsert("alice"))
    alter(context, upsert("alice", SHA_512, salted=bytes(64)))
    assert described(context, "nobody", "alice") == {
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "alice": [(1, 4096), (2, 4096)],
    }
    assert described(context, "alice", "alice") == {"alice": ErrorCode.DUPLICATE_RESOURCE}
