"""Every declared key: its default is a value of it, it says what it is, and it refuses what it is
not.
"""

import pytest

from log_service.common.errors import ConfigError
from log_service.config.definition import (
    ConfigKey,
    ConfigType,
    between,
    between_or,
    closest_name,
    keyed,
    list_of,
    not_empty,
    one_of,
)
from log_service.config.resolve import Layers, holding
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS

ALL_KEYS = [
    *SERVER_KEYS.values(),
    *(key for name, key in TOPIC_KEYS.items() if name not in SERVER_KEYS),
]


def key_of(config_type: ConfigType, **fields: object) -> ConfigKey:
    declared = {
        "name": "some.key",
        "type": config_type,
        "default": None,
        "documentation": "What it does.",
        "reason": "why",
    }
    return ConfigKey(**{**declared, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: str(key.name))
def test_a_default_is_a_value_of_its_own_key(key: ConfigKey) -> None:
    if key.default is not None:
        key.parse(key.default)


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: str(key.name))
def test_every_key_says_what_it_does_and_why_its_default(key: ConfigKey) -> None:
    assert key.documentation.endswith(".")
    assert key.reason
    assert not key.reason.endswith(".")
    assert ("without effect" in key.full_documentation) is not key.is_acting


@pytest.mark.parametrize("topic_key", sorted(TOPIC_KEYS))
def test_every_topic_key_has_a_default_through_its_brokers_keys(topic_key: str) -> None:
    default = TOPIC_KEYS[topic_key].default
    assert default is not None
    assert holding(topic_key, Layers()).value == TOPIC_KEYS[topic_key].parse(default)


def test_every_broker_synonym_is_a_declared_key() -> None:
    assert {name for key in TOPIC_KEYS.values() for name in key.synonyms} <= SERVER_KEYS.keys()


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32_767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.LIST, " a, b ,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_a_text_becomes_a_value_of_its_type(
    config_type: ConfigType, text: str, value: object
) -> None:
    assert key_of(config_type).parse(text) == value


@pytest.mark.parametrize(
    ("config_type", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "٣"),
        (ConfigType.INT, "9" * 5000),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.DOUBLE, "half"),
        (ConfigType.DOUBLE, "NaN"),
        (ConfigType.DOUBLE, "inf"),
        (ConfigType.DOUBLE, "1e400"),
        (ConfigType.DOUBLE, "1_0.5"),
    ],
)
def test_a_text_that_is_no_value_is_refused_by_name(config_type: ConfigType, text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.key"):
        key_of(config_type).parse(text)


def test_a_refused_password_is_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        key_of(ConfigType.PASSWORD, validator=one_of("other")).parse("secret")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("validator", "good", "bad"),
    [
        (between(1, 3), 3, 4),
        (between(0, 1), 0.5, 1.1),
        (between_or(1, 9, -1), -1, 0),
        (one_of("a", "b"), "b", "c"),
        (list_of("a", "b"), ("a", "b", "a"), ("a", "d")),
        (list_of("a", "b"), (), ("c",)),
        (not_empty, ("a",), ()),
    ],
)
def test_validators_accept_and_say_what_is_wrong(
    validator: object, good: object, bad: object
) -> None:
    assert callable(validator)
    assert validator(good) is None
    assert validator(bad)


def test_a_slip_finds_the_name_that_was_meant() -> None:
    assert closest_name("log.retnetion.ms", SERVER_KEYS) == "log.retention.ms"
    assert closest_name("something.else", SERVER_KEYS) is None


def test_a_key_declared_twice_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match=r"some\.key"):
        keyed([key_of(ConfigType.INT), key_of(ConfigType.LONG)])
