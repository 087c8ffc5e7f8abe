"""The one typed list of all settings, and the only access to the process's environment.

Every setting has a name ``TIDELOG_...``, an embedded default and a meaning. ``load_settings`` is
called when a run or a tick first needs a value, and while definitions load only for a topic whose
schema is in a registry. Knows nothing of Dagster, Spark or the broker.
Invariants: a ``Settings`` is complete and valid, and its paths are absolute. A bad value is refused
with the name of its variable.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from log_service.cluster_plans.health import DISK_FULL_PERCENT
from log_service.common.installation_names import SERVERS_SETTING, SPARK_REMOTE_SETTING
from log_service.common.listeners import DEFAULT_BROKER_PORT, DEFAULT_REGISTRY_PORT
from log_service.common.secrets import SecretText
from orchestration.offsets.byte_limits import DEFAULT_RECORD_BYTES, DEFAULT_RUN_BYTES, ByteLimits

DEFAULT_DATA_DIRECTORY = ".tidelog"
DEFAULT_SPARK_MASTER = "local[*]"
DEFAULT_SPARK_DRIVER_MEMORY = "2g"
DEFAULT_SPARK_SHUFFLE_PARTITIONS = 4
DEFAULT_RECORDS_PER_RUN = 500_000
DEFAULT_ARROW_RECORDS = 1_000_000
DEFAULT_MINIMUM_INTERVAL_S = 5
DEFAULT_FOLLOW_S = 300
DEFAULT_COMMIT_ATTEMPTS = 5
REGISTRY_URL = "TIDELOG_SCHEMA_REGISTRY_URL"
REGISTRY_PREFIX = REGISTRY_URL.removesuffix("URL")
REGISTRY_NUMBERS = (
    "timeout",
    "max_retries",
    "retries_wait_ms",
    "retries_max_wait_ms",
    "max_response_bytes",
)
POSTGRES_SCHEME = "postgresql://"
WEBHOOK = re.compile(r"https?://[^/\s@?#]+\S*")
ADDRESS = re.compile(r"[^@\s,<>]+@[^@\s,<>]+")
DEPLOYMENT = re.compile(r"[A-Za-z0-9_-]{1,100}")
HOME_VARIABLE = "DAGSTER_HOME"
UI_HOSTS = "TIDELOG_UI_HOSTS"
UI_LOGIN = "TIDELOG_UI_LOGIN"
UI_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")


class SettingsError(ValueError):
    """A setting cannot be used. The text names its variable, the value and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the platform.

    Paths are absolute. Sizes are counts or bytes, as their names say. URLs that may hold secrets
    are not shown.
    """

    bootstrap_servers: str
    data_directory: Path
    lake_root: Path
    warehouse_directory: Path
    sql_url: SecretText
    postgres_url: SecretText | None
    spark_remote: str | None
    spark_master: str
    spark_driver_memory: str
    spark_shuffle_partitions: int
    records_per_run: int
    bytes_per_run: int
    record_bytes: int
    arrow_records: int
    minimum_interval_s: int
    follow_s: int
    commit_attempts: int
    disk_full_percent: int
    deployment: str | None
    alert_webhook: SecretText | None
    alert_email_to: tuple[str, ...]
    alert_email_from: str | None
    alert_smtp: tuple[str, int] | None

    @property
    def byte_limits(self) -> ByteLimits:
        """The most bytes that a run may open, and the most bytes of one record."""
        return ByteLimits(run_bytes=self.bytes_per_run, record_bytes=self.record_bytes)

    @property
    def java_directory(self) -> Path:
        """The folder for the JAVA_HOME that is built if no Java is installed."""
        return self.data_directory / "java"

    @property
    def spark_scratch_directory(self) -> Path:
        """The folder for Spark's temporary files and warehouse, so that none is left elsewhere."""
        return self.data_directory / "spark"


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of ``environ``, by default the environment of the process.

    :raises SettingsError: a variable holds an unusable value.
    """
    given = os.environ if environ is None else environ
    base = Path(given.get("TIDELOG_DATA") or DEFAULT_DATA_DIRECTORY).expanduser().absolute()
    return Settings(
        bootstrap_servers=_text(given, SERVERS_SETTING, _own_broker(given)),
        data_directory=base,
        lake_root=_path(given, "TIDELOG_LAKE", base / "lake"),
        warehouse_directory=_path(given, "TIDELOG_WAREHOUSE", base / "warehouse"),
        sql_url=SecretText(_text(given, "TIDELOG_SQL_URL", _own_database(given, base))),
        postgres_url=None if (postgres := _postgres_url(given)) is None else SecretText(postgres),
        spark_remote=given.get(SPARK_REMOTE_SETTING) or None,
        spark_master=_text(given, "TIDELOG_SPARK_MASTER", DEFAULT_SPARK_MASTER),
        spark_driver_memory=_text(
            given, "TIDELOG_SPARK_DRIVER_MEMORY", DEFAULT_SPARK_DRIVER_MEMORY
        ),
        spark_shuffle_partitions=_positive(
            given, "TIDELOG_SPARK_SHUFFLE_PARTITIONS", DEFAULT_SPARK_SHUFFLE_PARTITIONS
        ),
        records_per_run=_positive(given, "TIDELOG_RECORDS_PER_RUN", DEFAULT_RECORDS_PER_RUN),
        bytes_per_run=_positive(given, "TIDELOG_BYTES_PER_RUN", DEFAULT_RUN_BYTES),
        record_bytes=_positive(given, "TIDELOG_RECORD_BYTES", DEFAULT_RECORD_BYTES),
        arrow_records=_count(given, "TIDELOG_ARROW_RECORDS", DEFAULT_ARROW_RECORDS),
        minimum_interval_s=_count(given, "TIDELOG_MINIMUM_INTERVAL_S", DEFAULT_MINIMUM_INTERVAL_S),
        follow_s=_count(given, "TIDELOG_FOLLOW_S", DEFAULT_FOLLOW_S),
        commit_attempts=_positive(given, "TIDELOG_COMMIT_ATTEMPTS", DEFAULT_COMMIT_ATTEMPTS),
        disk_full_percent=_whole_number(
            given, "TIDELOG_DISK_FULL_PERCENT", DISK_FULL_PERCENT, at_least=1, at_most=100
        ),
        deployment=_deployment(given),
        alert_webhook=_webhook(given),
        alert_email_to=_recipients(given),
        alert_email_from=given.get("TIDELOG_ALERT_EMAIL_FROM") or None,
        alert_smtp=_mail_server(given),
    )


def client_settings(
    environ: Mapping[str, str] | None = None, *, file: str | None = None
) -> dict[str, Any]:
    """Return the settings by which clients of the log service encrypt and log in.

    They come from TIDELOG_CLIENT_CONFIG, TIDELOG_SASL_... and similar variables. Each process reads
    them when it connects, so that no secret is in a run's configuration, a pickle or an event. A
    ``file`` of properties replaces the environment, because the file is for another cluster.

    :raises ConfigError: the file cannot be read or understood.
    """
    from log_service.client import (  # noqa: PLC0415 - when a connection is made, never while definitions load
        settings_from_environment,
        settings_from_file,
    )

    if file is not None:
        return settings_from_file(file)
    return settings_from_environment(os.environ if environ is None else environ)


def registry_settings(environ: Mapping[str, str] | None = None) -> tuple[str, dict[str, Any]]:
    """Return the URL of the schema registry, and the settings by which its clients log in.

    Each process reads them when it connects, because they may hold secrets. By default it is the
    registry that ``tidelog up`` starts.

    :raises SettingsError: the value of a numeric setting is not a number.
    """
    given = os.environ if environ is None else environ
    port = _whole_number(
        given, "TIDELOG_REGISTRY_PORT", DEFAULT_REGISTRY_PORT, at_least=0, at_most=65_535
    )
    named = {
        name: text
        for name, text in given.items()
        if name.startswith(REGISTRY_PREFIX) and name != REGISTRY_URL and text
    }
    settings: dict[str, Any] = {
        name.removeprefix(REGISTRY_PREFIX).lower(): text for name, text in named.items()
    }
    for name in REGISTRY_NUMBERS:
        if name in settings:
            settings[name] = _whole_number(named, f"{REGISTRY_PREFIX}{name.upper()}", 0, at_least=0)
    return _text(given, REGISTRY_URL, f"http://127.0.0.1:{port or DEFAULT_REGISTRY_PORT}"), settings


def process_environment() -> dict[str, str]:
    """Return a copy of the process's environment, for starting children and finding Java."""
    return dict(os.environ)


def instance_home() -> Path:
    """Return the folder of the Dagster instance of this process.

    :raises SettingsError: DAGSTER_HOME is not set, or is a path that Dagster refuses.
    """
    home = os.environ.get(HOME_VARIABLE)
    meant = (
        "it names the folder of a Dagster instance by its whole path, such as"
        " /srv/shop/.tidelog/dagster for `tidelog up` in /srv/shop"
    )
    if not home:
        raise SettingsError(f"{HOME_VARIABLE} is not set: {meant}")
    if not Path(home).is_absolute():
        raise SettingsError(f"{HOME_VARIABLE} is {home!r}, which is not a whole path: {meant}")
    return Path(home)


def export_environment(variables: Mapping[str, str]) -> None:
    """Set ``variables`` in the environment of this process.

    Spark's launcher and its Python workers read JAVA_HOME and PYSPARK_PYTHON only from there.
    """
    os.environ.update(variables)


def use_utc() -> None:
    """Set the time zone of this process, and of those that it starts, to UTC.

    PySpark converts Spark's times to local times, in the driver and in Python functions. With the
    host's zone a result would depend on the host.
    """
    os.environ["TZ"] = "UTC"
    time.tzset()


@contextmanager
def named_in_environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable of this process in the block, and restore it afterwards."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _text(given: Mapping[str, str], name: str, default: str) -> str:
    return given.get(name) or default


def _own_broker(given: Mapping[str, str]) -> str:
    """Return the address of the broker that ``tidelog up`` starts with these settings.

    TIDELOG_BROKER_PORT 0 means any free port. Only a running installation knows that port, so the
    default port is returned for 0.
    """
    port = _whole_number(
        given, "TIDELOG_BROKER_PORT", DEFAULT_BROKER_PORT, at_least=0, at_most=65_535
    )
    return f"127.0.0.1:{port or DEFAULT_BROKER_PORT}"


def _own_database(given: Mapping[str, str], base: Path) -> str:
    """Return the URL of the database for SQL tables that is used if no setting names one.

    It is the PostgreSQL database of TIDELOG_POSTGRES_URL if that is set, else a SQLite file.
    """
    url = _postgres_url(given)
    return (
        f"sqlite:///{base / 'reference.db'}"
        if url is None
        else f"postgresql+psycopg://{url.removeprefix(POSTGRES_SCHEME)}"
    )


def _postgres_url(given: Mapping[str, str]) -> str | None:
    url = given.get("TIDELOG_POSTGRES_URL") or None
    if url is not None and not url.startswith(POSTGRES_SCHEME):
        raise SettingsError(
            f"TIDELOG_POSTGRES_URL has to begin with {POSTGRES_SCHEME}, e.g."
            f" {POSTGRES_SCHEME}user:password@host/name"
        )
    return url


def _webhook(given: Mapping[str, str]) -> SecretText | None:
    """Return the URL of the webhook. If it cannot be used, the error does not show it."""
    url = given.get("TIDELOG_ALERT_WEBHOOK") or None
    if url is None:
        return None
    if not url.isascii() or not url.isprintable() or " " in url:
        raise SettingsError(
            "TIDELOG_ALERT_WEBHOOK holds whitespace, or a character that is not printable ASCII:"
            " percent-encode it"
        )
    try:
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # its text may show the URL
        is_usable = False
    else:
        if "@" in parts.netloc:
            raise SettingsError(
                "TIDELOG_ALERT_WEBHOOK has a user or a password before its host, which no hook"
                " sends: leave them out"
            )
    if not is_usable or not WEBHOOK.fullmatch(url):
        raise SettingsError(
            "TIDELOG_ALERT_WEBHOOK has to be a URL that begins with https:// or http:// and names a"
            " host"
        )
    return SecretText(url)


def ui_hosts(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return names under which browsers may open Dagster's UI, in addition to its own address.

    :raises SettingsError: a name has a port, a scheme or a wildcard.
    """
    names = tuple(one.strip() for one in given.get(UI_HOSTS, "").split(",") if one.strip())
    for name in names:
        if not UI_HOST.fullmatch(name):
            raise SettingsError(
                f"{UI_HOSTS} names {name!r}: it has to be names like ui.example.com, separated by"
                " commas, without ports"
            )
    return names


def ui_login(given: Mapping[str, str]) -> Path | None:
    """Return the properties file of the client that checks passwords for Dagster's UI.

    None means that the UI asks for no passwords.
    """
    named = given.get(UI_LOGIN)
    return Path(named).expanduser().absolute() if named else None


def _recipients(given: Mapping[str, str]) -> tuple[str, ...]:
    addresses = tuple(
        one.strip() for one in given.get("TIDELOG_ALERT_EMAIL_TO", "").split(",") if one.strip()
    )
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            raise SettingsError(
                f"TIDELOG_ALERT_EMAIL_TO names {address!r}: it has to be addresses like"
                " ops@example.com, separated by commas"
            )
    if addresses and not given.get("TIDELOG_ALERT_SMTP"):
        raise SettingsError(
            "TIDELOG_ALERT_EMAIL_TO needs the mail server: set TIDELOG_ALERT_SMTP, as host:port"
        )
    return addresses


def _mail_server(given: Mapping[str, str]) -> tuple[str, int] | None:
    text = given.get("TIDELOG_ALERT_SMTP") or None
    if text is None:
        return None
    if "@" in text:
        raise SettingsError(
            "TIDELOG_ALERT_SMTP names a user: mail is sent without a login; give host:port, e.g."
            " mail.example.com:25"
        )
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise SettingsError(
            f"TIDELOG_ALERT_SMTP is {text!r}: it has to be host:port, e.g. mail.example.com:25"
        )
    return host.strip("[]"), int(port)


def _deployment(given: Mapping[str, str]) -> str | None:
    name = given.get("TIDELOG_DEPLOYMENT") or None
    if name is not None and not DEPLOYMENT.fullmatch(name):
        raise SettingsError(
            f"TIDELOG_DEPLOYMENT is {name!r}: it has to be a name of letters, digits, '_' and '-'"
        )
    return name


def _path(given: Mapping[str, str], name: str, default: Path) -> Path:
    value = given.get(name)
    return Path(value).expanduser().absolute() if value else default


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    return _whole_number(given, name, default, at_least=0)


def _positive(given: Mapping[str, str], name: str, default: int) -> int:
    return _whole_number(given, name, default, at_least=1)


def _whole_number(
    given: Mapping[str, str], name: str, default: int, *, at_least: int, at_most: int | None = None
) -> int:
    text = given.get(name)
    if not text:
        return default
    if (
        not text.strip().isdecimal()
        or int(text) < at_least
        or (at_most is not None and int(text) > at_most)
    ):
        limits = f"at least {at_least}" if at_most is None else f"{at_least} to {at_most}"
        raise SettingsError(
            f"{name} is {text!r}: it has to be a whole number, {limits} (default {default})"
        )
    return int(text)
