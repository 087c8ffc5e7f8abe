"""The definition of a configuration key: name, type, default, bounds, documentation and reason.

A key decides whether a text is one of its values, and explains why a text is not. This module knows
no particular key, no file and no request. Errors are ``ConfigError``, and the handler of a request
turns them into a code of the protocol.

Invariants: a default is a text like any other and passes its own key's check. ``parse`` raises only
``ConfigError``.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, Flag, IntEnum, auto
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

from log_service.common.errors import ConfigError

Value = bool | int | float | str | tuple[str, ...]
"""A parsed value. A key without a value has None."""
Validator = Callable[[Value], str | None]
"""Returns the fault of a value, or None."""

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class ConfigType(IntEnum):
    """Kafka's configuration types, by their numbers in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT, LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
)
DOUBLE, LIST, CLASS, PASSWORD = (
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)


class ConfigSource(IntEnum):
    """The source of a value, by Kafka's numbers in DescribeConfigs.

    Of the sources up to DEFAULT, the one with the lower number takes precedence.
    """

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Importance(Enum):
    """How important a key is to readers."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Whether a key may change while brokers run, and if so, for one broker or only for all."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


READ_ONLY, PER_BROKER, CLUSTER_WIDE = (
    UpdateMode.READ_ONLY,
    UpdateMode.PER_BROKER,
    UpdateMode.CLUSTER_WIDE,
)


class Trait(Flag):
    """Special rules for changing, checking or showing a key."""

    NONE = 0
    INTERNAL = auto()
    """The key is listed only if it is set or named."""
    OWN = auto()
    """Apache Kafka's broker does not know the key. It is listed only if it is set."""
    DEMANDED = auto()
    """Apache Kafka has no default.

    Ours is for an empty file, and is not listed as a synonym of a set value.
    """
    ACCESS = auto()
    """The key decides who may log in, as whom, or who the broker shows itself to be.

    Setting it takes ALTER on the cluster. A key store is the identity of the broker, for its
    clients and for the nodes that it connects to. Its keys also have the broker read a file that a
    request names.
    """
    STORE = auto()
    """The key of a key store or trust store. It changes only with a listener's prefix."""
    LISTENER = auto()
    """An override for one listener has an effect here."""
    LISTENER_LIMIT = auto()
    """An override for one listener may be set for all brokers, and is checked like the key."""
    MECHANISM = auto()
    """A listener may have the key for one mechanism, behind the mechanism's name."""
    FILE_ALONE = auto()
    """The key is read from the file only, so requests change nothing.

    Apache Kafka's running listeners do not change either.
    """
    RESTART = auto()
    """A running broker refuses another value, although Apache Kafka takes it."""
    THREADS = auto()
    """The number may at most double or halve in one step."""
    POSITIVE = auto()
    """The file may say 0, but no change may, because no client could connect to change it back."""
    CLASSES = auto()
    """The list names Java classes. None runs here, so only the default may be named."""


WHOLE_NUMBER_BOUNDS: Mapping[ConfigType, tuple[int, int]] = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), MAX_INT),
    ConfigType.LONG: (-(2**63), MAX_LONG),
}


class ViewField(NamedTuple):
    """A field of a view that gets the value of a key.

    ``convert`` converts the value, if given.
    """

    view: str
    name: str
    convert: Callable[[Any], Any] | None


def to(place: str, convert: Callable[[Any], Any] | None = None) -> tuple[ViewField, ...]:
    """Return the view field that ``place`` names as ``View.name``, for ``fields`` of a key."""
    view, _, name = place.partition(".")
    return (ViewField(view, name, convert),)


def has(item: str) -> Callable[[Collection[str]], bool]:
    """Return a function that tells whether a list has ``item``."""
    return lambda items: item in items


def text_or_none(text: str | None) -> str | None:
    """Convert an empty text to None."""
    return text or None


def path_or_none(text: str | None) -> Path | None:
    """Convert a text to a path, and an empty text to None."""
    return Path(text) if text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One configuration key.

    ``default`` is a text, or None for a key that has no value unless set.
    """

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    reason: str
    importance: Importance = Importance.MEDIUM
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    validator: Validator | None = None
    traits: Trait = Trait.NONE
    is_acting: bool = True
    refusal: str = ""
    """The reason why a value other than false or an empty one is refused.

    Such a key asks for a missing feature, and ignoring it would weaken a promise.
    """
    synonyms: tuple[str, ...] = ()
    """The broker keys that set the default of a topic key. The first one with a value wins."""
    factor: int = 1
    """Converts the value of a broker key to the unit of its topic key and of the views."""
    fields: tuple[ViewField, ...] = ()
    """The fields of views that have the value."""

    @property
    def is_internal(self) -> bool:
        """Whether DescribeConfigs lists the key only if it is set or named in the request."""
        return bool(self.traits & (Trait.INTERNAL | Trait.OWN))

    @property
    def is_about_access(self) -> bool:
        """Whether a client needs ALTER on the cluster to set the key."""
        return Trait.ACCESS in self.traits

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    @property
    def full_documentation(self) -> str:
        """The documentation, the reason for the default, and whether the key has an effect."""
        idle = "" if self.is_acting else " Accepted, and without effect in this version."
        return f"{self.documentation} Reason for the default: {self.reason}.{idle}"

    def parse(self, text: str) -> Value:
        """Return the value of a text.

        Raises:
            ConfigError: the text is not a valid value of this key. The message names the key, the
                text and what would be accepted.
        """
        value = self._convert(text.strip())
        complaint = self.validator(value) if self.validator else None
        if complaint:
            raise self._refusal(text, complaint)
        return value

    def is_refused(self, text: str) -> bool:
        """Whether a text would enable a feature that is not supported."""
        asked = text.strip()
        return bool(self.refusal and asked) and (
            self.type is not ConfigType.BOOLEAN or asked.lower() == "true"
        )

    def in_unit(self, value: Value) -> Value:
        """Convert a value of this key to the unit of the topic key and of the views.

        A negative value means no limit in every unit.
        """
        return (
            value * self.factor
            if self.factor != 1 and isinstance(value, int) and value > 0
            else value
        )

    def field_values(self, value: Value | None, view: str) -> dict[str, Any]:
        """Return the values of the fields of ``view`` that follow from ``value``, by field name."""
        own = None if value is None else self.in_unit(value)
        return {
            field.name: field.convert(own) if field.convert else own
            for field in self.fields
            if field.view == view
        }

    def _convert(self, text: str) -> Value:
        match self.type:
            case ConfigType.BOOLEAN:
                if text.lower() not in {"true", "false"}:
                    raise self._refusal(text, "it must be true or false")
                return text.lower() == "true"
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                return self._whole_number(text)
            case ConfigType.DOUBLE:
                return self._double(text)
            case ConfigType.LIST:
                return split_list(text)
            case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD | ConfigType.UNKNOWN:
                return text

    def _double(self, text: str) -> float:
        try:
            number = (
                float(text) if text.isascii() and "_" not in text and len(text) <= 400 else math.nan
            )
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._refusal(text, "it is not a number of type DOUBLE")
        return number

    def _whole_number(self, text: str) -> int:
        lowest, highest = WHOLE_NUMBER_BOUNDS[self.type]
        try:
            number = int(text) if text.isascii() and "_" not in text and len(text) <= 20 else None
        except ValueError:
            number = None
        if number is None or not lowest <= number <= highest:
            raise self._refusal(text, f"it is not a whole number of type {self.type.name}")
        return number

    def _refusal(self, text: str, complaint: str) -> ConfigError:
        shown = "(hidden)" if self.is_sensitive else text
        return ConfigError(f"invalid value {shown!r} for {self.name}: {complaint}")


class Options(TypedDict, total=False):
    """Optional arguments of ``declared``, which few keys have."""

    update_mode: UpdateMode
    traits: Trait
    is_acting: bool
    factor: int
    fields: tuple[ViewField, ...]


def declared(
    name: str,
    config_type: ConfigType,
    default: str | None,
    documentation: str,
    reason: str,
    *,
    validator: Validator | None = None,
    importance: Importance = Importance.MEDIUM,
    **options: Unpack[Options],
) -> ConfigKey:
    """Return a key. Most of its arguments are positional, so that declarations are short."""
    return ConfigKey(
        name=name,
        type=config_type,
        default=default,
        documentation=documentation,
        reason=reason,
        validator=validator,
        importance=importance,
        **options,
    )


class Row(NamedTuple):
    """A key without effect. The reason is given once for its whole family of keys."""

    name: str
    type: ConfigType
    default: str | None
    validator: Validator | None = None
    update_mode: UpdateMode = READ_ONLY
    traits: Trait = Trait.NONE
    refusal: str = ""


Family = tuple[str, tuple[Row, ...]]
"""The reason why a family of keys has no effect here, and the keys."""


def split_list(text: str) -> tuple[str, ...]:
    """Return the stripped items of a comma-separated list. An empty text is an empty list."""
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


def keyed(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    """Return keys by name. A name that is declared twice is a bug of this package."""
    by_name: dict[str, ConfigKey] = {}
    for key in keys:
        assert key.name not in by_name, f"{key.name} is declared twice"
        by_name[key.name] = key
    return by_name


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a mistyped ``name``, or None."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.8)
    return found[0] if found else None


def unknown_keys_warning(unknown: Sequence[str], known: Collection[str]) -> str | None:
    """Return a warning that names the unknown keys and the closest known ones, None without any."""
    if not unknown:
        return None
    named = []
    for name in unknown:
        meant = closest_name(name, known)
        named.append(f"{name} (did you mean {meant}?)" if meant else name)
    return f"these keys are not known and have no effect: {', '.join(named)}"


def at_least(lowest: float) -> Validator:
    """Return a validator that accepts numbers from ``lowest`` on."""
    return between(lowest, float("inf"))


def between(lowest: float, highest: float) -> Validator:
    """Return a validator that accepts numbers in [lowest, highest]."""

    def validate(value: Value) -> str | None:
        if isinstance(value, int | float) and lowest <= value <= highest:
            return None
        return (
            f"it must be at least {lowest}"
            if highest == float("inf")
            else f"it must be between {lowest} and {highest}"
        )

    return validate


def between_or(lowest: float, highest: float, other: float) -> Validator:
    """Return a validator that accepts numbers in [lowest, highest], and one other number."""

    def validate(value: Value) -> str | None:
        if isinstance(value, int | float) and (lowest <= value <= highest or value == other):
            return None
        return f"it must be between {lowest} and {highest}, or {other}"

    return validate


def one_of(*choices: str) -> Validator:
    """Return a validator that accepts only the texts in ``choices``."""

    def validate(value: Value) -> str | None:
        return None if value in choices else f"it must be one of {', '.join(choices)}"

    return validate


def list_of(*choices: str, is_empty_allowed: bool = True) -> Validator:
    """Return a validator that accepts lists of texts in ``choices``.

    A repeated text counts once.
    """

    def validate(value: Value) -> str | None:
        assert isinstance(value, tuple)
        unknown = [item for item in value if item not in choices]
        if unknown:
            return f"{unknown[0]!r} is none of {', '.join(choices)}"
        return None if value or is_empty_allowed else f"it must be some of {', '.join(choices)}"

    return validate


def no_empty_item(value: Value) -> str | None:
    """Accept lists without an empty item, including the empty list, or return an error text."""
    assert isinstance(value, tuple)
    return None if all(value) else "an item of the list is empty"


def some_items(value: Value) -> str | None:
    """Accept lists of at least one item, none of them empty, or return an error text."""
    return no_empty_item(value) if value else "it must not be empty"


def not_empty(value: Value) -> str | None:
    """Accept everything except an empty text or list, for which an error text is returned."""
    return None if value not in {"", ()} else "it must not be empty"
