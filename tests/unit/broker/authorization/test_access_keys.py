"""ALTER_CONFIGS makes nobody a super user: keys that decide who may log in need ALTER on the
cluster.
"""

import logging

import pytest

from log_service.common.access import AclOperation
from log_service.config.definition import PER_BROKER, Trait
from log_service.config.describe import access_keys
from log_service.config.dynamic_keys import keys_with
from log_service.config.server_keys import SERVER_KEYS
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.alter_configs import AlterableConfig as LegacyConfig
from log_service.protocol.messages.alter_configs import AlterConfigsRequest
from log_service.protocol.messages.alter_configs import AlterConfigsResource as LegacyResource
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    AclStory,
    tell_with_acls,
)

JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
HARMLESS = "log.cleaner.threads"
CONFIGS = (AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)
ALTER = (AclOperation.ALTER, CLUSTER, CLUSTER_NAME)
TEXT = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="mine";'


def setting(
    *keys: str, operation: int = 0, value: str | None = TEXT
) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(
            name=key, config_operation=operation, value="1" if key == HARMLESS else value
        )
        for key in keys
    ]
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=ResourceType.BROKER, resource_name="1", configs=configs
            )
        ]
    )


def replacing(*keys: str) -> AlterConfigsRequest:
    configs = [LegacyConfig(name=key, value="1" if key == HARMLESS else TEXT) for key in keys]
    return AlterConfigsRequest(
        resources=[
            LegacyResource(resource_type=ResourceType.BROKER, resource_name="1", configs=configs)
        ]
    )


def test_who_may_change_configuration_makes_himself_no_user(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def code(node: AclStory, request: object, version: int) -> int:
        (result,) = (await node.ask(request, version)).responses
        return int(result.error_code)

    async def story(node: AclStory) -> None:
        await node.allow(CONFIGS)
        assert await code(node, setting(HARMLESS), 1) == 0
        for request in (
            setting(JAAS),
            setting(HARMLESS, JAAS),
            setting(JAAS, operation=1, value=None),
        ):
            assert await code(node, request, 1) == 31
        assert await code(node, replacing(JAAS), 2) == 31
        assert "changes who may log in" not in caplog.text
        await node.allow(ALTER)
        with caplog.at_level(logging.WARNING):
            assert await code(node, setting(JAAS), 1) == 0
        assert (
            f"User:ANONYMOUS changes who may log in at broker 1, or its identity: {JAAS}"
            in caplog.text
        )
        assert "mine" not in caplog.text
        await node.have_only(CONFIGS)
        assert await code(node, replacing(HARMLESS), 2) == 31, "it would reset the users"

    tell_with_acls(story)


@pytest.mark.parametrize(
    "prefix", ["", "listener.name.x.", "listener.name.x.plain.", "listener.name.x.scram-sha-512."]
)
@pytest.mark.parametrize(
    "key",
    [
        "sasl.jaas.config",
        "sasl.enabled.mechanisms",
        "ssl.truststore.location",
        "ssl.keystore.location",
        "ssl.client.auth",
        "super.users",
    ],
)
def test_keys_about_access_are_known_in_each_spelling(prefix: str, key: str) -> None:
    assert access_keys(
        [prefix + key, "log.cleaner.threads", "listener.name.x.max.connections"]
    ) == [prefix + key]


@pytest.mark.parametrize("listener", ["", "listener.name.x.", "listener.name.ext.a."])
@pytest.mark.parametrize("key", sorted(keys_with(Trait.STORE)))
def test_each_key_of_the_stores_is_about_access(key: str, listener: str) -> None:
    """A key store is the broker's identity, for clients and for nodes. Its keys were anybody's with
    ALTER_CONFIGS.
    """
    assert access_keys([listener + key]) == [listener + key]


def test_a_key_that_names_a_file_or_a_class_of_a_listener_is_about_access() -> None:
    words = (".location", ".file", ".url", ".class", ".cmd")
    of_broker = {name for name, key in SERVER_KEYS.items() if key.update_mode is PER_BROKER}
    named = [key for key in keys_with(Trait.LISTENER) | of_broker if key.endswith(words)]
    assert len(named) > 8
    assert access_keys(named) == named


def test_each_key_of_tokens_is_about_access() -> None:
    tokens = [name for name in SERVER_KEYS if name.startswith("sasl.oauthbearer.")]
    assert tokens
    assert access_keys(tokens) == tokens


@pytest.mark.parametrize(
    "key",
    [
        "plain.sasl.jaas.config",
        "ssl.truststore.location",
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url",
    ],
)
def test_a_key_of_a_listener_whose_name_has_dots_is_about_access(key: str) -> None:
    """Listeners may be called EXT.A: their keys are none that the declarations know, and act all
    the same.
    """
    name = f"listener.name.ext.a.{key}"
    assert access_keys([name, "listener.name.ext.a.max.connections", f"other.{key}"]) == [name]
