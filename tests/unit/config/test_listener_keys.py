"""Keys of one listener override others, also where the listener's name has dots."""

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.broker import BrokerChange, validate_broker_change
from log_service.config.definition import Trait
from log_service.config.describe import access_keys, broker_key, describe_broker
from log_service.config.dynamic_broker_config import dynamic_broker_config
from log_service.config.dynamic_keys import (
    base_name,
    counts_from_file_alone,
    keys_with,
    listener_name,
)
from log_service.config.resolve import Layers
from log_service.config.server import idle_keys

KEYS_OF_MECHANISMS = keys_with(Trait.MECHANISM)
ACTING = keys_with(Trait.LISTENER | Trait.ACCESS) - {"listeners"}
LISTENERS = ["x", "ext.a", "a.b.c", "ssl", "ext.ssl", "ext.plain", "max.connections", "sasl"]
MECHANISMS = ["plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi"]
FILE = {
    "listeners": "EXT.A://:9092,X://:9093",
    "listener.security.protocol.map": "EXT.A:SASL_SSL,X:SASL_SSL",
}


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("key", sorted(ACTING | {"sasl.oauthbearer.of.a.later.version"}))
def test_a_key_is_its_listeners(listener: str, key: str) -> None:
    is_ambiguous = listener == "ext.plain" and (
        key in KEYS_OF_MECHANISMS or key.startswith("sasl.oauthbearer.")
    )
    name = f"listener.name.{listener}.{key}"
    assert base_name(name) == key
    assert listener_name(name) == ("EXT" if is_ambiguous else listener.upper()), (
        "EXT may have it for one mechanism"
    )


@pytest.mark.parametrize("listener", ["x", "ext.a", "ext.plain"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("key", sorted(KEYS_OF_MECHANISMS))
def test_a_key_of_a_mechanism_is_its_listeners(listener: str, mechanism: str, key: str) -> None:
    name = f"listener.name.{listener}.{mechanism}.{key}"
    assert (base_name(name), listener_name(name)) == (key, listener.upper())
    assert counts_from_file_alone(name) == counts_from_file_alone(
        f"listener.name.x.{mechanism}.{key}"
    )


@pytest.mark.parametrize(
    ("name", "base", "listener"),
    [
        ("ssl.keystore.location", "ssl.keystore.location", None),
        ("listener.name.ssl.keystore.location", "keystore.location", "SSL"),
        ("listener.name.a.b.of.a.plugin", "b.of.a.plugin", "A"),
        ("listener.name.a.listeners", "listeners", "A"),
        ("listener.name.a.advertised.listeners", "advertised.listeners", "A"),
        ("listener.name.a.plain.log.cleaner.threads", "log.cleaner.threads", "A"),
        ("listener.name.a.ssl.keystore.location.backup", "ssl.keystore.location.backup", "A"),
        ("listener.name.", "listener.name.", None),
        (
            "other.listener.name.a.ssl.keystore.location",
            "other.listener.name.a.ssl.keystore.location",
            None,
        ),
    ],
)
def test_other_names_are_taken_as_apache_kafka_does(
    name: str, base: str, listener: str | None
) -> None:
    assert (base_name(name), listener_name(name)) == (base, listener)


def change(name: str, value: str, *, is_default: bool = False) -> BrokerChange:
    return BrokerChange(
        result={name: value},
        set_names=frozenset({name}),
        layers=Layers(static=FILE),
        is_default=is_default,
    )


@pytest.mark.parametrize("listener", ["x", "ext.a"])
def test_description_validation_and_authorization_agree(listener: str) -> None:
    """A listener with a dot had keys that needed ALTER.

    They were shown and checked as those of a plug-in.
    """
    jaas, store, count = (
        f"listener.name.{listener}.{key}"
        for key in ("plain.sasl.jaas.config", "ssl.truststore.location", "max.connections")
    )
    for name in (jaas, store, count):
        key = broker_key(name)
        assert key is not None
        assert (access_keys([name]) == [name]) == key.is_about_access
    rows = {
        row.name: row
        for row in describe_broker(
            Layers(static=FILE, broker={jaas: "secret", store: "/a", count: "7"})
        )
    }
    assert [rows[name].is_sensitive for name in (jaas, store, count)] == [True, False, False]
    assert rows[jaas].value is None
    assert (rows[store].value, rows[count].value) == ("/a", "7")
    assert idle_keys({store: "/a", count: "7"}) == ()
    assert dynamic_broker_config(
        (), FILE, broker={count: "7"}
    ).connections.max_count_of_listener == ((listener.upper(), 7),)
    for refused in (
        change(count, "many"),
        change(count, "0"),
        change(store, "/a", is_default=True),
    ):
        with pytest.raises(KafkaError) as raised:
            validate_broker_change(refused)
        assert raised.value.code is ErrorCode.INVALID_REQUEST
    validate_broker_change(change(store, "/a"))


def test_names_of_keys_may_be_long() -> None:
    """They come from clients, before a right is looked at."""
    for text in ("a." * 16_000, ".ssl" * 8_000, "plain." * 5_000, ".sasl.oauthbearer." * 1_800):
        assert base_name(f"listener.name.{text}x").endswith("x")


def test_stores_are_those_of_the_listener() -> None:
    assert {listener_name(f"listener.name.ext.a.{key}") for key in keys_with(Trait.STORE)} == {
        "EXT.A"
    }
