"""Dynamic configuration of brokers: whether a request's values are acceptable, as Apache Kafka 4.3 judges them (KIP-226).

Decides validity; how values are shown is ``config.describe``, what they change in a running node is the broker's. Complaints are
``KafkaError`` INVALID_REQUEST, because they are answers. A name that nobody knows is accepted and kept, as Kafka does.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.config.definition import ConfigKey, UpdateMode, Value
from log_service.config.dynamic_keys import ELSEWHERE, LISTENER_KEY, PER_LISTENER, QUOTA_KEYS, THREAD_COUNTS, base_name
from log_service.config.resolve import Layers, Texts
from log_service.config.server_keys import SERVER_KEYS

NEEDS_RESTART = frozenset({"listeners", "listener.security.protocol.map"})
CLEANER_THREADS = "log.cleaner.threads"
ALL_DIRECTORIES = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """A change of the configuration of one broker, or of the default of all."""

    result: Mapping[str, str]
    """All that will be set."""
    set_names: frozenset[str]
    """What of it is set by this request."""
    layers: Layers
    """What holds now, for this broker."""
    is_default: bool


def validate_broker_change(change: BrokerChange) -> None:
    """Check a change, all of it.

    Raises:
        KafkaError: INVALID_REQUEST, a key cannot change while a broker runs, or not at this level, or its value is none of the key.
    """
    _validate_names(sorted(change.set_names), is_default=change.is_default)
    for name in sorted(change.set_names):
        key = SERVER_KEYS.get(name) or QUOTA_KEYS.get(name) or SERVER_KEYS.get(base_name(name))
        if key is not None:
            _validate_value(change, name, key, _parsed(key, change.result[name]))


def _validate_names(names: list[str], *, is_default: bool) -> None:
    fixed = [name for name in names if name in SERVER_KEYS and SERVER_KEYS[name].update_mode is UpdateMode.READ_ONLY]
    if fixed:
        raise _refusal(f"{', '.join(fixed)} cannot change while a broker runs; set it in the file and restart")
    bare = [name for name in names if name in PER_LISTENER]
    if bare:
        raise _refusal(f"{', '.join(bare)} can be set for one listener only: listener.name.NAME.{bare[0]}")
    of_one = [name for name in names if name in ELSEWHERE or (LISTENER_KEY.fullmatch(name) and base_name(name) in PER_LISTENER)]
    if is_default and of_one:
        raise _refusal(f"{', '.join(of_one)} cannot be the default of all brokers; name the broker")


def _parsed(key: ConfigKey, text: str) -> Value:
    try:
        return key.parse(text)
    except ConfigError as fault:
        raise _refusal(str(fault)) from fault


def _validate_value(change: BrokerChange, name: str, key: ConfigKey, value: Value) -> None:
    if name in NEEDS_RESTART and value != _current(key, change.layers):
        raise _refusal(f"{name} cannot change while this broker runs; set it in the file and restart")
    if name in THREAD_COUNTS or name == CLEANER_THREADS:
        _validate_thread_count(name, value, _current(key, change.layers))
    if name == "cordoned.log.dirs":
        _validate_cordoned(value, change.layers.static)
    if name in {"metric.reporters", "config.providers"} and value:
        raise _refusal(f"{name} names a Java class, which cannot run here")


def _current(key: ConfigKey, layers: Layers) -> Value | None:
    """Return the value that holds; what is stored and none of the key is passed over."""
    for texts in (layers.broker, layers.cluster, layers.static):
        if key.name in texts:
            with suppress(ConfigError):
                return key.parse(texts[key.name])
    return None if key.default is None else key.parse(key.default)


def _validate_thread_count(name: str, value: Value, current: Value | None) -> None:
    assert isinstance(value, int)
    assert isinstance(current, int)
    if not max(1, current // 2) <= value <= current * 2:
        raise _refusal(f"{name} is {current} and can at most double or halve in one step, not become {value}")


def _validate_cordoned(value: Value, static: Texts) -> None:
    assert isinstance(value, tuple)
    known = static.get("log.dirs") or static.get("log.dir") or SERVER_KEYS["log.dir"].default or ""
    directories = {directory.strip() for directory in known.split(",")}
    strange = [directory for directory in value if directory != ALL_DIRECTORIES and directory not in directories]
    if strange:
        raise _refusal(f"cordoned.log.dirs names {strange[0]}, which is not one of log.dirs")


def _refusal(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
