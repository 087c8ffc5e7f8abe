"""The settings of producer, consumer and admin, with Kafka's names in snake_case and its defaults.

This module checks settings at the start and names the wrong one in the error. It does not know what
settings do. Each setting is one field, which holds its default, bounds and reason together. Code
receives one frozen object.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from types import NoneType
from typing import Any, Self

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.client_security import SECURITY_SETTINGS, ClientSecurity, client_security
from log_service.config.security import PROTOCOLS

MAX_INT = 2**31 - 1
MAX_TEXT_BYTES = 2**15 - 1
KINDS = {
    str: "text",
    bool: "True or False",
    int: "a whole number",
    tuple: "a text or several",
    SecretText: "text",
}
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
RESETS = ("earliest", "latest", "none")
ACKNOWLEDGEMENTS = ("implicit", "explicit")
ACQUIRE_MODES = ("batch_optimized", "record_limit")
DURATION = re.compile(
    r"P(?:(\d{1,6})D)?(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}


def _number(
    default: int, reason: str, *, at_least: int = 0, at_most: int = MAX_INT, instead: str = ""
) -> Any:
    """Return a dataclass field for a whole number.

    ``instead`` says what applies under ``group_protocol="consumer"``, if the setting does not.
    """
    return field(
        default=default,
        metadata={"reason": reason, "bounds": (at_least, at_most), "instead": instead},
    )


def _choice(default: str, reason: str, *choices: str) -> Any:
    return field(default=default, metadata={"reason": reason, "choices": choices})


def _plain(default: Any, reason: str, *kinds: type, instead: str = "") -> Any:
    """Return a dataclass field whose values have the default's type, or one of ``kinds``."""
    return field(
        default=default,
        metadata={"reason": reason, "kinds": kinds or (type(default),), "instead": instead},
    )


def _text(reason: str) -> Any:
    """Return a dataclass field for a text, or None."""
    return field(default=None, metadata={"reason": reason, "kinds": (str, NoneType)})


def _secret(reason: str) -> dict[str, Any]:
    """Return the field metadata of a secret text, given as a text or as a ``SecretText``."""
    return {"reason": reason, "kinds": (SecretText, NoneType)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of every client: servers, the client's name, times, and security.

    Raises:
        ConfigError: a value is out of its bounds, or ``bootstrap_servers`` is not a list of
            ``host:port``.
    """

    bootstrap_servers: tuple[tuple[str, int], ...] = field(
        metadata={"reason": "no cluster can be guessed"}
    )
    client_id: str = _plain("tidelog", "named in the broker's logs and quotas")
    metadata_max_age_ms: int = _number(
        300_000, "finds new partitions and brokers without an error first"
    )
    request_timeout_ms: int = _number(
        30_000, "a broker without a response for this time counts as gone", at_least=1
    )
    default_api_timeout_ms: int = _number(
        60_000, "bounds one call of admin or consumer with all its retries", at_least=1
    )
    metadata_recovery_strategy: str = _choice(
        "rebootstrap",
        "a client finds its cluster again after all brokers have moved (KIP-899)",
        "rebootstrap",
        "none",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = _number(
        300_000, "the brokers that are known may have left (KIP-1102)"
    )
    retry_backoff_ms: int = _number(
        100, "the first pause before a retry; doubles with jitter", at_least=1
    )
    retry_backoff_max_ms: int = _number(1_000, "the longest pause before a retry", at_least=1)
    reconnect_backoff_ms: int = _number(
        50, "the first pause before connecting to the same node again", at_least=1
    )
    reconnect_backoff_max_ms: int = _number(
        1_000, "the longest pause before connecting to the same node again", at_least=1
    )
    socket_connection_setup_timeout_ms: int = _number(
        10_000, "connecting and negotiating versions", at_least=1
    )
    connections_max_idle_ms: int = _number(
        540_000, "less than the broker's 600 s, so that we close first", at_least=1
    )
    enable_metrics: bool = _plain(True, "counts per request, batch and poll: nothing per record")
    max_response_bytes: int = _number(
        100 << 20,
        "the largest response that is read; a fetch asks for at most 50 MiB",
        at_least=1 << 16,
    )
    security_protocol: str = _choice(
        "PLAINTEXT", "Kafka's default; SSL encrypts, SASL_SSL logs in as well", *PROTOCOLS
    )
    sasl_mechanism: str | None = _text(
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; none is guessed"
    )
    sasl_jaas_config: SecretText | None = field(
        default=None, metadata=_secret("Kafka's text of user and password, instead of the next two")
    )
    sasl_username: str | None = _text(
        "the user; with a delegation token use sasl_jaas_config with tokenauth=true"
    )
    sasl_password: SecretText | None = field(default=None, metadata=_secret("the user's password"))
    sasl_oauthbearer_token: Callable[[], str] | str | None = field(
        default=None,
        metadata={"reason": "a function that returns a token, or the path of a file that holds it"},
    )
    sasl_oauthbearer_token_endpoint_url: str | None = _text(
        "instead of it: an http or https URL that gives tokens for the next two (client credentials"
        " grant), or the file: URL of a token"
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = _text(
        "or clientId in sasl_jaas_config"
    )
    sasl_oauthbearer_client_credentials_client_secret: SecretText | None = field(
        default=None, metadata=_secret("or clientSecret in sasl_jaas_config")
    )
    sasl_oauthbearer_scope: str | None = _text(
        "the scope of the token, if the endpoint asks for one; or scope in sasl_jaas_config"
    )
    sasl_oauthbearer_header_urlencode: bool = _plain(
        False, "Kafka's default; RFC 6749 wants id and secret encoded, few endpoints do"
    )
    sasl_oauthbearer_ca: str | None = _text(
        "as ssl_ca, for the endpoint; or ssl.truststore.location in sasl_jaas_config"
    )
    ssl_ca: str | None = _text(
        "PEM, or the path of a PEM file: whose certificates are trusted; None: the system's"
        " authorities"
    )
    ssl_truststore_type: str | None = _text("JKS, PKCS12 or PEM; JKS by default, as in Kafka")
    ssl_truststore_location: str | None = _text("a file of that type, instead of ssl_ca")
    ssl_truststore_password: SecretText | None = field(
        default=None, metadata=_secret("of a trust store that has one")
    )
    ssl_truststore_certificates: str | None = _text("PEM text (KIP-651)")
    ssl_keystore_type: str | None = _text("JKS, PKCS12 or PEM; JKS by default, as in Kafka")
    ssl_keystore_location: str | None = _text(
        "our own certificate, where the brokers ask for one (mTLS)"
    )
    ssl_keystore_password: SecretText | None = field(
        default=None, metadata=_secret("of a key store that has one")
    )
    ssl_keystore_key: SecretText | None = field(
        default=None, metadata=_secret("PEM text of the key (KIP-651)")
    )
    ssl_keystore_certificate_chain: str | None = _text(
        "PEM text of our certificate and those above it (KIP-651)"
    )
    ssl_key_password: SecretText | None = field(
        default=None, metadata=_secret("of a key that is encrypted")
    )
    ssl_enabled_protocols: str | None = _text("TLSv1.2,TLSv1.3 by default")
    ssl_cipher_suites: str | None = _text("those of the TLS library by default")
    ssl_endpoint_identification_algorithm: str | None = _text(
        "https by default; empty compares no names, which is unsafe"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "bootstrap_servers", parse_servers(self.bootstrap_servers))
        for name in SECRETS:
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, SecretText(value))
        for declared in fields(self):
            _validate(declared, getattr(self, declared.name))
        self.security()

    def security(self) -> ClientSecurity:
        """Return the combined security settings. Raises ConfigError: they contradict each other."""
        return client_security({name: getattr(self, name) for name in SECURITY_SETTINGS})

    @classmethod
    def of(cls, bootstrap_servers: "str | Iterable[str]", settings: Mapping[str, Any]) -> Self:
        """Build the configuration from keyword settings.

        Raises:
            ConfigError: there is no such setting (the nearest name is suggested), or as the
                constructor.
        """
        names = [declared.name for declared in fields(cls)]
        for name in settings:
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
                raise ConfigError(f"{cls.__name__} has no setting {name!r}{hint}")
        return cls(bootstrap_servers=parse_servers(bootstrap_servers), **settings)


SECRETS = frozenset(
    setting.name
    for setting in fields(ClientConfig)
    if SecretText in setting.metadata.get("kinds", ())
)
"""Settings whose values are never shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """Settings of an Admin, which has only the settings of every client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Settings of a Producer."""

    acks: str = _choice("all", "an acknowledged record survives the loss of its leader", *ACKS)
    enable_idempotence: bool = _plain(True, "retries neither duplicate nor reorder (KIP-679)")
    max_in_flight_requests_per_connection: int = _number(
        5, "as many as a broker remembers for idempotence", at_least=1
    )
    batch_size: int = _number(
        16_384, "bytes of one batch before compression; 0 sends each record alone", at_most=1 << 30
    )
    linger_ms: int = _number(
        5, "waiting this long fills batches and costs less than it saves (KIP-1030)"
    )
    compression: str = _choice("none", "Kafka's compression.type", *COMPRESSIONS)
    compression_level: int | None = _plain(None, "None is the codec's own default", int, NoneType)
    buffer_memory: int = _number(
        32 << 20, "bytes of records that wait; then send() waits", at_least=1, at_most=2**63 - 1
    )
    max_block_ms: int = _number(60_000, "how long send() waits for room or metadata")
    metadata_max_idle_ms: int = _number(
        300_000, "a topic without new records for this time is no longer refreshed", at_least=5_000
    )
    max_request_size: int = _number(
        1 << 20, "largest request; brokers take batches of 1 MiB by default", at_least=1
    )
    partitioner_adaptive_partitioning_enable: bool = _plain(
        True, "keyless records avoid partitions whose broker is slow (KIP-794)"
    )
    partitioner_ignore_keys: bool = _plain(False, "place keyed records as if they had no key")
    delivery_timeout_ms: int = _number(
        120_000, "from send() to success or failure, with all retries", at_least=1
    )
    transactional_id: str | None = _plain(
        None,
        "one per instance of a program, the same after a restart; None: no transactions",
        str,
        NoneType,
    )
    transaction_timeout_ms: int = _number(
        60_000,
        "the coordinator aborts what takes longer; at most its transaction.max.timeout.ms",
        at_least=1,
    )

    def __post_init__(self) -> None:
        # dataclass(slots=True) makes a new class, and super() without arguments would look for the
        # old one.
        object.__setattr__(self, "acks", str(self.acks))
        ClientConfig.__post_init__(self)
        if self.enable_idempotence and ACKS[self.acks] != -1:
            raise ConfigError(
                f"enable_idempotence needs acks='all', not {self.acks!r}: set"
                " enable_idempotence=False"
            )
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            text = (
                "enable_idempotence allows 5 requests in flight, not"
                f" {self.max_in_flight_requests_per_connection}"
            )
            raise ConfigError(text)
        if self.transactional_id == "":
            raise ConfigError(
                "transactional_id is empty: name the producer, or leave it out to produce without"
                " transactions"
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError(
                "transactional_id needs enable_idempotence=True: leave enable_idempotence out, or"
                " transactional_id"
            )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery_timeout_ms {self.delivery_timeout_ms} is less than linger_ms"
                f" {self.linger_ms} + request_timeout_ms {self.request_timeout_ms}"
            )

    @property
    def required_acks(self) -> int:
        """The acks as a number in requests: 0, 1, or -1 for all."""
        return ACKS[self.acks]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Settings of a Consumer."""

    group_id: str | None = _plain(None, "None: no group, no commits; assign() only", str, NoneType)
    group_instance_id: str | None = _plain(
        None, "a static member keeps its partitions over a restart (KIP-345)", str, NoneType
    )
    group_protocol: str = _choice(
        "classic",
        "Kafka's default; consumer is KIP-848, where the broker assigns",
        "classic",
        "consumer",
    )
    group_remote_assignor: str | None = _plain(
        None,
        "None: the broker's default; uniform or range, for group_protocol=consumer",
        str,
        NoneType,
    )
    session_timeout_ms: int = _number(
        45_000,
        "a member without heartbeats for this time is removed (KIP-735)",
        at_least=1,
        instead=(
            "the broker decides it: group.consumer.session.timeout.ms, or"
            " consumer.session.timeout.ms of the group"
        ),
    )
    heartbeat_interval_ms: int = _number(
        3_000,
        "a third of the session at most",
        at_least=1,
        instead=(
            "the broker decides it: group.consumer.heartbeat.interval.ms, or"
            " consumer.heartbeat.interval.ms of the group"
        ),
    )
    max_poll_interval_ms: int = _number(
        300_000, "a member without a poll for this time leaves (KIP-62)", at_least=1
    )
    partition_assignment_strategy: tuple[str, ...] = _plain(
        ("range", "cooperative-sticky"),
        "Kafka's pair: a rolling path to cooperative",
        instead="the broker assigns: name one of its assignors as group_remote_assignor",
    )
    enable_auto_commit: bool = _plain(True, "commits what poll() returned before the last poll()")
    auto_commit_interval_ms: int = _number(5_000, "at most this much is read again after a crash")
    auto_offset_reset: str = _plain(
        "latest", "where a group without an offset starts; by_duration:P1D is a day ago (KIP-1106)"
    )
    isolation_level: str = _choice(
        "read_uncommitted", "Kafka's default", "read_uncommitted", "read_committed"
    )
    fetch_min_bytes: int = _number(1, "respond as soon as there is a record")
    fetch_max_wait_ms: int = _number(500, "how long the broker waits for fetch_min_bytes")
    fetch_max_bytes: int = _number(50 << 20, "of one response", at_least=1)
    max_partition_fetch_bytes: int = _number(
        1 << 20, "of one partition in one response", at_least=1
    )
    max_poll_records: int = _number(500, "of one poll()", at_least=1)
    queued_max_bytes: int = _number(
        64 << 20, "fetched and not yet polled: the prefetch's bound", at_least=1
    )
    check_crcs: bool = _plain(True, "wire and disk are checked for 0.1 us per batch")
    skip_corrupt_batches: bool = _plain(
        False, "True: go on behind a batch that cannot be read, and log the offsets skipped"
    )
    use_numpy: bool = _plain(
        True, "False: leave numpy and its 20 MB alone; many small records then take more CPU"
    )
    include_control_records: bool = _plain(
        False, "True: return LogRecord with its producer, also for the ends of transactions"
    )
    allow_auto_create_topics: bool = _plain(True, "Kafka's default; the broker decides")
    exclude_internal_topics: bool = _plain(True, "a pattern does not mean __consumer_offsets")
    client_rack: str = _plain("", "lets the broker name a nearer replica (KIP-392)")

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "partition_assignment_strategy", _names(self.partition_assignment_strategy)
        )
        ClientConfig.__post_init__(self)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms {self.heartbeat_interval_ms} is not below"
                f" session_timeout_ms {self.session_timeout_ms}"
            )
        if self.group_id == "":
            raise ConfigError(
                "group_id is empty: name the group, or leave it out to read without one"
            )
        if self.group_instance_id == "":
            raise ConfigError("group_instance_id is empty: name the member, or leave it out")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group_instance_id needs a group_id")
        _validate_group_protocol(self)
        if not self.partition_assignment_strategy:
            raise ConfigError("partition_assignment_strategy names no assignor")
        if self.auto_offset_reset not in RESETS and self.reset_duration_ms is None:
            text = (
                f"auto_offset_reset must be one of {', '.join(RESETS)} or by_duration:<ISO 8601>,"
                f" not {self.auto_offset_reset!r}"
            )
            raise ConfigError(text)

    @property
    def reset_duration_ms(self) -> int | None:
        """The age of the first records that are read if no offset is committed, in ms.

        It is None unless ``auto_offset_reset`` is ``by_duration:...``.
        """
        kind, _, text = str(self.auto_offset_reset).partition(":")
        return parse_duration_ms(text) if kind == "by_duration" else None

    @property
    def isolation(self) -> int:
        """The isolation level as a number in requests: 0 read_uncommitted, 1 read_committed."""
        return int(self.isolation_level == "read_committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """Settings of a ShareConsumer (KIP-932).

    The start of reading and the duration of locks are settings of the group, on the brokers.
    """

    group_id: str = _plain("", "the share group; it has to be named")
    acknowledgement_mode: str = _choice(
        "implicit",
        "what was polled is accepted by the next poll; explicit: nothing by itself",
        *ACKNOWLEDGEMENTS,
    )
    share_acquire_mode: str = _choice(
        "batch_optimized",
        "whole batches are acquired; record_limit: never more than a poll asks for (KIP-1206)",
        *ACQUIRE_MODES,
    )
    max_poll_interval_ms: int = _number(
        300_000, "a member without a poll for this time leaves (KIP-62)", at_least=1
    )
    fetch_min_bytes: int = _number(1, "respond as soon as there is a record")
    fetch_max_wait_ms: int = _number(500, "how long the broker waits for fetch_min_bytes")
    fetch_max_bytes: int = _number(50 << 20, "of one response", at_least=1)
    max_poll_records: int = _number(500, "of one poll(), and what is asked for at once", at_least=1)
    check_crcs: bool = _plain(True, "wire and disk are checked for 0.1 us per batch")
    client_rack: str = _plain("", "the rack, which the coordinator gets")

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if not self.group_id:
            raise ConfigError("group_id is missing: a queue is shared by the members of a group")

    @property
    def is_implicit(self) -> bool:
        """Whether records are accepted without an explicit acknowledgement."""
        return self.acknowledgement_mode == ACKNOWLEDGEMENTS[0]

    @property
    def acquire_mode(self) -> int:
        """The acquire mode as a number in requests: 0 batch_optimized, 1 record_limit."""
        return ACQUIRE_MODES.index(self.share_acquire_mode)


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of an ISO 8601 duration such as P1DT12H, or None for other text.

    Days, hours, minutes and seconds are allowed.
    """
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000)


def parse_servers(servers: Any) -> tuple[tuple[str, int], ...]:
    """Return (host, port) pairs of ``"host:port,host:port"``, or of such texts or pairs.

    Raises:
        ConfigError: nothing is listed, or an entry is not ``host:port``.
    """
    if not isinstance(servers, Iterable):
        raise ConfigError(f"bootstrap_servers is a text or lists texts, not {servers!r}")
    entries = servers.split(",") if isinstance(servers, str) else list(servers)
    parsed = tuple(_parse_server(entry) for entry in entries if entry)
    if not parsed:
        raise ConfigError(
            "bootstrap_servers lists no server: give host:port, several separated by commas"
        )
    return parsed


def _parse_server(entry: Any) -> tuple[str, int]:
    text = (
        "{}:{}".format(*entry)
        if isinstance(entry, tuple) and len(entry) == 2
        else str(entry).strip()
    )
    host, _, port = text.rpartition(":")
    is_whole = host.startswith("[") == host.endswith("]")
    host = host.strip("[]")
    if not is_whole or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return host, int(port)


def _validate(declared: "Field[Any]", value: Any) -> None:
    bounds = declared.metadata.get("bounds")
    if bounds is not None and (
        isinstance(value, bool) or not isinstance(value, int) or not bounds[0] <= value <= bounds[1]
    ):
        raise ConfigError(
            f"{declared.name} must be a whole number from {bounds[0]} to {bounds[1]}, not {value!r}"
        )
    kinds = declared.metadata.get("kinds")
    if kinds is not None and (
        not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
    ):
        named = " or ".join("None" if kind is NoneType else KINDS[kind] for kind in kinds)
        shown = "what was given" if declared.name in SECRETS else repr(value)
        raise ConfigError(f"{declared.name} must be {named}, not {shown}")
    if isinstance(value, str) and len(value.encode()) > MAX_TEXT_BYTES:
        raise ConfigError(f"{declared.name} has more than {MAX_TEXT_BYTES} bytes")
    choices = declared.metadata.get("choices")
    if choices is not None and value not in choices:
        raise ConfigError(f"{declared.name} must be one of {', '.join(choices)}, not {value!r}")


def _names(given: Any) -> Any:
    """Return the names of a list, or of a comma-separated text, as Kafka writes lists."""
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",") if name.strip())
    return tuple(given) if isinstance(given, Iterable) else given


def _validate_group_protocol(config: ConsumerConfig) -> None:
    """Refuse settings that have no effect under the group's protocol."""
    if config.group_protocol == "classic":
        if config.group_remote_assignor is not None:
            raise ConfigError(
                "group_remote_assignor needs group_protocol='consumer': members of classic groups"
                " assign by themselves"
            )
        return
    for setting in fields(ConsumerConfig):
        instead = setting.metadata.get("instead")
        if instead and getattr(config, setting.name) != setting.default:
            raise ConfigError(
                f"{setting.name} means nothing with group_protocol='consumer': {instead}"
            )
