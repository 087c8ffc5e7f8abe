"""The check of changes to a running broker's configuration, as in Apache Kafka 4.3 (KIP-226).

A change is checked in three steps. First the names: each key may change while a broker runs, and at
this level. Then the values: each is valid for its key. Then the resulting configuration: some keys
bound each other, and some may only change in small steps. A name that is not a key of Kafka's is
accepted and kept, because it may belong to a plug-in.

This module decides validity. ``config.describe`` decides how values are shown, and the broker
applies them. Errors are ``KafkaError`` INVALID_REQUEST, because they become responses.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.config.definition import (
    PER_BROKER,
    READ_ONLY,
    ConfigKey,
    ConfigType,
    Trait,
    Value,
    split_list,
)
from log_service.config.dynamic_keys import base_name, listener_name, traits_of
from log_service.config.listeners import parse_end_points
from log_service.config.resolve import Layers, Texts, holding
from log_service.config.runtime_keys import RUNTIME_KEYS
from log_service.config.server_keys import DEFAULT_LISTENERS, SERVER_KEYS

CLEANER_THREADS, DEDUPE_BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
MIN_DEDUPE_BYTES = 1 << 20
ALL_DIRECTORIES = "*"
"""The value of ``cordoned.log.dirs`` that means all of ``log.dirs`` (KIP-1066)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """A change to the configuration of one broker, or to the default of all."""

    result: Mapping[str, str]
    """All texts after the change."""
    set_names: frozenset[str]
    """The names in ``result`` that this request sets."""
    layers: Layers
    """The current layers of this broker."""
    is_default: bool

    @property
    def layers_after(self) -> Layers:
        """The layers of this broker after the change."""
        return (
            replace(self.layers, cluster=self.result)
            if self.is_default
            else replace(self.layers, broker=self.result)
        )

    @property
    def changed_names(self) -> frozenset[str]:
        """The names that this request sets or deletes."""
        before = self.layers.cluster if self.is_default else self.layers.broker
        return self.set_names | (before.keys() - self.result.keys())


def validate_broker_change(change: BrokerChange) -> None:
    """Check a change of a broker's configuration as a whole.

    Raises:
        KafkaError: INVALID_REQUEST, a key cannot change while a broker runs, or not at this level;
            a value is not valid for its key; or two values contradict each other.
    """
    _validate_names(sorted(change.set_names), is_default=change.is_default)
    own_prefixes = _own_prefixes(change.layers.static)
    for name in sorted(change.set_names):
        is_own = name.startswith(own_prefixes)
        key = _validating_key(name, is_of_own_listener=is_own)
        if key is not None:
            value = _parsed(key, change.result[name])
            _validate_classes(name, key, value)
            if name == key.name or (is_own and Trait.LISTENER_LIMIT in key.traits):
                _validate_step(change, name, key, value)
    for names, complaint in _TOGETHER:
        fault = complaint(change.layers_after) if names & change.changed_names else None
        if fault:
            raise _refusal(fault)


def _validate_names(names: list[str], *, is_default: bool) -> None:
    fixed = [
        name for name in names if name in SERVER_KEYS and SERVER_KEYS[name].update_mode is READ_ONLY
    ]
    if fixed:
        raise _refusal(
            f"{', '.join(fixed)} cannot change while a broker runs; set it in the file and restart"
        )
    bare = [name for name in names if Trait.STORE in traits_of(name)]
    if bare:
        raise _refusal(
            f"{', '.join(bare)} can be set for one listener only: listener.name.NAME.{bare[0]}"
        )
    of_one = [name for name in names if _is_for_one_broker(name)]
    if is_default and of_one:
        raise _refusal(f"{', '.join(of_one)} cannot be the default of all brokers; name the broker")


def _is_for_one_broker(name: str) -> bool:
    if listener_name(name) is not None:
        return Trait.LISTENER_LIMIT not in traits_of(base_name(name))
    return name in SERVER_KEYS and SERVER_KEYS[name].update_mode is PER_BROKER


def _own_prefixes(static: Texts) -> tuple[str, ...]:
    """Return the prefixes of the keys about this broker's own listeners."""
    listeners = parse_end_points(
        "listeners", split_list(static.get("listeners", DEFAULT_LISTENERS))
    )
    return tuple(f"listener.name.{listener.name.lower()}." for listener in listeners)


def _validating_key(name: str, *, is_of_own_listener: bool) -> ConfigKey | None:
    """Return the key that checks a name's value, None if any text is valid.

    An override for a listener that this broker lacks is checked only if its key may change, because
    the listener may belong to another broker.
    """
    key = SERVER_KEYS.get(base_name(name)) or RUNTIME_KEYS.get(base_name(name))
    if key is None or (key.update_mode is READ_ONLY and not is_of_own_listener):
        return None
    return key


def _parsed(key: ConfigKey, text: str) -> Value:
    try:
        return key.parse(text)
    except ConfigError as fault:
        raise _refusal(str(fault)) from fault


def _validate_classes(name: str, key: ConfigKey, value: Value) -> None:
    named: tuple[Value, ...] = (value,) if key.type is ConfigType.CLASS else ()
    if isinstance(value, tuple) and Trait.CLASSES in traits_of(name):
        named = value
    strange = set(named) - set(split_list(key.default or ""))
    if strange:
        raise _refusal(
            f"{name} names {', '.join(map(str, strange))}, a Java class, which cannot run here"
        )


def _validate_step(change: BrokerChange, name: str, key: ConfigKey, value: Value) -> None:
    """Check whether a running broker may change a key from its current value to ``value``."""
    current = _current(name, key, change.layers)
    if Trait.RESTART in key.traits and value != current:
        raise _refusal(
            f"{name} cannot change while this broker runs; set it in the file and restart"
        )
    if Trait.THREADS in key.traits:
        _validate_thread_count(name, value, current)
    if Trait.POSITIVE in key.traits and value == 0:
        raise _refusal(
            f"{name} cannot become 0 while a broker runs: no client could connect to change it back"
        )
    if name == "cordoned.log.dirs":
        _validate_cordoned(value)


def _current(name: str, key: ConfigKey, layers: Layers) -> Value | None:
    """Return the current value. Stored texts that the key does not accept are skipped."""
    for texts in (layers.broker, layers.cluster, layers.static):
        for alias in (name, key.name):
            if alias in texts:
                with suppress(ConfigError):
                    return key.parse(texts[alias])
    return None if key.default is None else key.parse(key.default)


def _validate_thread_count(name: str, value: Value, current: Value | None) -> None:
    assert isinstance(value, int)
    assert isinstance(current, int)
    if not max(1, current // 2) <= value <= current * 2:
        raise _refusal(
            f"{name} is {current} and can at most double or halve in one step, not become {value}"
        )


def _validate_cordoned(value: Value) -> None:
    """Check a ``cordoned.log.dirs`` as far as that is possible without the log directories.

    Only the broker itself knows which directories exist (``strange_directories``).
    """
    assert isinstance(value, tuple)
    if ALL_DIRECTORIES in value and len(value) > 1:
        raise _refusal(
            f"cordoned.log.dirs names {ALL_DIRECTORIES}, which is all of log.dirs, and others"
            " beside it"
        )


def strange_directories(names: Iterable[str], log_dirs: Collection[Path]) -> list[str]:
    """Return the names in a ``cordoned.log.dirs`` that are not in ``log_dirs``."""
    return [name for name in names if name != ALL_DIRECTORIES and Path(name) not in log_dirs]


# Keys that bound each other


def _number(name: str, layers: Layers) -> Any:
    return _current(name, SERVER_KEYS[name], layers)


def _cleaner_memory(layers: Layers) -> str | None:
    threads, buffer_bytes = _number(CLEANER_THREADS, layers), _number(DEDUPE_BUFFER, layers)
    if threads and buffer_bytes // threads > MIN_DEDUPE_BYTES:
        return None
    return (
        f"{DEDUPE_BUFFER} is {buffer_bytes} for {threads} cleaner threads; each has to have more"
        f" than {MIN_DEDUPE_BYTES} bytes"
    )


def _hosts(layers: Layers) -> str | None:
    if _number("max.connections.per.ip", layers) or _number(
        "max.connections.per.ip.overrides", layers
    ):
        return None
    return (
        "max.connections.per.ip can be 0 only where max.connections.per.ip.overrides names the"
        " addresses that may connect"
    )


def _local_retention(unit: str, layers: Layers) -> str | None:
    """Return an error text if more is kept on the local disk than in total, else None.

    A local retention of -2 means the same as the total.
    """
    kept: Any = holding(f"retention.{unit}", layers).value
    kept_here = _number(f"log.local.retention.{unit}", layers)
    if kept < 0 or kept_here == -2 or 0 <= kept_here <= kept:
        return None
    return (
        f"log.local.retention.{unit} is {kept_here}, more than log.retention.{unit}, which is"
        f" {kept}"
    )


def _assignment_interval(protocol: str, layers: Layers) -> str | None:
    shortest, interval, longest = (
        _number(f"group.{protocol}.{bound}assignment.interval.ms", layers)
        for bound in ("min.", "", "max.")
    )
    if shortest <= interval <= longest:
        return None
    return (
        f"group.{protocol}.assignment.interval.ms is {interval}, which is not between {shortest}"
        f" and {longest}"
    )


_TOGETHER: tuple[tuple[frozenset[str], Callable[[Layers], str | None]], ...] = (
    (frozenset({CLEANER_THREADS, DEDUPE_BUFFER}), _cleaner_memory),
    (frozenset({"max.connections.per.ip", "max.connections.per.ip.overrides"}), _hosts),
    (
        frozenset({"log.local.retention.ms", "log.retention.ms"}),
        lambda layers: _local_retention("ms", layers),
    ),
    (
        frozenset({"log.local.retention.bytes", "log.retention.bytes"}),
        lambda layers: _local_retention("bytes", layers),
    ),
    (
        frozenset({"group.consumer.assignment.interval.ms"}),
        lambda layers: _assignment_interval("consumer", layers),
    ),
    (
        frozenset({"group.share.assignment.interval.ms"}),
        lambda layers: _assignment_interval("share", layers),
    ),
    (
        frozenset({"group.streams.assignment.interval.ms"}),
        lambda layers: _assignment_interval("streams", layers),
    ),
)
"""Keys, and the check of their values together."""


def _refusal(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
