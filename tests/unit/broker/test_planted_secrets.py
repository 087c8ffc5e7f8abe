"""No object, log line or message of a node shows a planted secret.

Secrets are planted wherever a node takes them.

Every object of ours that is alive is asked for its ``repr``: what a debugger, a traceback or a
careless log line would show.
"""

import base64
import gc
import logging
from typing import Any

import pytest

from log_service.common.secrets import SecretBytes, SecretText
from log_service.config.server import parse_server_properties
from log_service.protocol.messages.alter_configs import AlterableConfig as LegacyAlterableConfig
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from log_service.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from log_service.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from log_service.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.stored.metadata_records import ConfigRecord, UserScramCredentialRecord
from log_service.security.sasl.credentials import ScramMechanism
from tests.unit.broker.context import Story
from tests.unit.broker.logins.login_story import (
    LISTENER,
    PACKAGE,
    PROPERTIES,
    guest,
    plain,
    tell_of_logins,
)

PLANTED = "planted-9f31c7"
BROKER = 4


def shows(shown: str) -> bool:
    """Whether a text holds a planted secret, in the clear or as bytes that were encoded."""
    encoded = base64.b64encode(PLANTED.encode()).decode().rstrip("=")[:-1]
    return PLANTED in shown or encoded in shown


def our_objects() -> list[Any]:
    return [
        each for each in gc.get_objects() if str(type(each).__module__).startswith("log_service")
    ]


def test_no_object_of_a_node_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "log_service")
    jaas = f'{PACKAGE}.plain.PlainLoginModule required user_alice="{PLANTED}";'
    names = {
        f"{LISTENER}.plain.sasl.jaas.config": jaas,
        "delegation.token.secret.key": f"{PLANTED}-of-tokens",
        "ssl.keystore.password": f"{PLANTED}-of-the-store",
        "ssl.key.password": f"{PLANTED}-of-the-key",
        "ssl.keystore.key": f"{PLANTED}-the-key",
        "ssl.truststore.password": f"{PLANTED}-of-whom-to-trust",
    }

    async def story(node: Story) -> None:
        alice = await guest(node)
        assert (await alice.log_in(plain("alice", PLANTED))).error_code == 0
        await (await guest(node)).log_in(plain("alice", f"{PLANTED}-but-wrong"))
        salted = (PLANTED * 5).encode()[:64]
        upsertion = ScramCredentialUpsertion(
            name="bob", mechanism=2, iterations=4096, salt=PLANTED.encode(), salted_password=salted
        )
        assert (
            await alice.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        ).results[0].error_code == 0
        await (await guest(node)).log_in_by_scram("bob", PLANTED, ScramMechanism.SHA_512)
        token = await alice.ask(
            CreateDelegationTokenRequest(
                max_lifetime_ms=-1, owner_principal_name=None, owner_principal_type=None
            ),
            3,
        )
        assert token.error_code == 0
        password = base64.b64encode(token.hmac).decode()
        by_token = await guest(node)
        assert (
            await by_token.log_in_by_scram(token.token_id, password, is_by_token=True)
        ).error_code == 0
        configs = [
            AlterableConfig(name=f"listener.name.{listener}.{key}", value=f"{PLANTED}-changed")
            for listener, key in (
                ("plaintext", "ssl.keystore.password"),
                ("guarded", "ssl.key.password"),
            )
        ]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
        told = await alice.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert told.responses[0].error_code == 0, told
        stored = node.broker.image.configs.of(BROKER, "1")
        assert f"{PLANTED}-changed" in stored.values(), "it is there, and not shown"
        for each in our_objects():
            shown = repr(each)
            assert not shows(shown), type(each)
            assert password not in shown, type(each)
            assert token.hmac.hex() not in shown, type(each)
            assert repr(token.hmac)[2:-1] not in shown, type(each)
        await alice.ask(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2)

    tell_of_logins(story, **names)
    assert not [record.getMessage() for record in caplog.records if shows(record.getMessage())]
    assert caplog.records


def test_no_configuration_shows_a_secret() -> None:
    names = {
        f"{LISTENER}.plain.sasl.jaas.config": f'{PACKAGE}.plain.PlainLoginModule required user_alice="{PLANTED}";'
    }
    config, settings = parse_server_properties(
        {**PROPERTIES, "node.id": "1", **names, "delegation.token.secret.key": PLANTED}
    )
    assert not shows(repr(config))
    assert not shows(repr(settings))
    assert settings.texts["delegation.token.secret.key"] == PLANTED


@pytest.mark.parametrize(
    "message",
    [
        ConfigRecord(name="listener.name.ssl.ssl.key.password", value=PLANTED),
        AlterableConfig(name="listener.name.ssl.ssl.key.password", value=PLANTED),
        LegacyAlterableConfig(name="listener.name.ssl.ssl.key.password", value=PLANTED),
        EnvelopeRequest(request_data=PLANTED.encode()),
        EnvelopeResponse(response_data=PLANTED.encode()),
        SaslAuthenticateRequest(auth_bytes=PLANTED.encode()),
        SaslAuthenticateResponse(auth_bytes=PLANTED.encode()),
        ScramCredentialUpsertion(salt=PLANTED.encode(), salted_password=PLANTED.encode()),
        UserScramCredentialRecord(
            salt=PLANTED.encode(), stored_key=PLANTED.encode(), server_key=PLANTED.encode()
        ),
        SecretText(PLANTED),
        SecretBytes(PLANTED.encode()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_no_message_shows_a_secret(message: object) -> None:
    assert not shows(repr(message))
    assert not shows(f"{message}")
