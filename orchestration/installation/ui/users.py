"""Users of Dagster's UI: the cluster's own, with their passwords and rights there.

A login at the UI is a login at the cluster, by SCRAM or PLAIN, so that there is no second store of
passwords. Only one server checks the password, so that a guess at the UI is one guess at the
cluster. Two rights decide, both on the group ``tidelog-ui``, whether it exists or not.
DESCRIBE_CONFIGS allows to read the UI, and ALTER_CONFIGS allows to change something, too. An ACL on
all groups, as consumers have it, gives neither.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Self

from log_service.client import (
    BlockingAdmin,
    ConfigError,
    ConfigResource,
    ErrorCode,
    KafkaError,
    settings_from_file,
)
from log_service.client.settings_files import servers_from_file
from log_service.common.secrets import SecretText

UI_GROUP = "tidelog-ui"
ANSWER_MS = 10_000
MAX_ASKED = 3
"""Most servers that are tried in one login. They share ``ANSWER_MS``."""
MAX_TEXT_CHARACTERS = 512
"""A longer user or password is refused without asking."""


class UiRights(Enum):
    """The rights of a login in the UI. ``UNKNOWN`` means an unknown user or a wrong password."""

    UNKNOWN = "unknown"
    NONE = "none"
    READ = "read"
    CHANGE = "change"

    @property
    def is_reader(self) -> bool:
        """Return whether the UI may be read."""
        return self in {UiRights.READ, UiRights.CHANGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUsers:
    """Logs users in at a listener of the cluster that asks for passwords."""

    servers: str
    settings: dict[str, Any] = field(repr=False)
    _order: deque[str] = field(init=False, repr=False, compare=False)
    """The servers. Those that did not answer come last."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_order", deque(each.strip() for each in self.servers.split(",")))

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read a client's properties file.

        :raises ConfigError: the file cannot be read, names no servers, or names no mechanism with
            passwords.
        """
        servers, settings = servers_from_file(path), settings_from_file(path)
        if not servers:
            raise ConfigError(
                f"{path} names no bootstrap.servers: the UI has passwords checked there"
            )
        if str(settings.get("sasl_mechanism", "")).partition("-")[0] not in {"SCRAM", "PLAIN"}:
            raise ConfigError(
                f"{path} needs sasl.mechanism=SCRAM-SHA-512, or another one with passwords: the UI"
                " has them checked by it"
            )
        return cls(servers=servers, settings=settings)

    def rights_of(self, user: str, password: SecretText) -> UiRights:
        """Log in as ``user``, and return the rights of that user. Blocks.

        A client that knows several servers would try a wrong password at each of them. So each
        server has a client of its own, and the next one is asked only if one does not respond.

        :raises KafkaError: the cluster did not respond.
        """
        if not _is_usable(user) or not _is_usable(password.reveal()):
            return UiRights.UNKNOWN
        servers = tuple(self._order)[:MAX_ASKED]
        login = {
            "sasl_username": user,
            "sasl_password": password.reveal(),
            "default_api_timeout_ms": ANSWER_MS // len(servers),
        }
        failed: KafkaError | None = None
        for server in servers:
            try:
                return _rights_at(server, {**self.settings, **login})
            except KafkaError as error:
                if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                    return UiRights.UNKNOWN
                failed = error
            if self._order[0] == server:
                self._order.rotate(-1)
        assert failed is not None, "there is a server"
        raise failed


def _rights_at(server: str, settings: dict[str, Any]) -> UiRights:
    group = ConfigResource.group(UI_GROUP)
    with BlockingAdmin(server, **settings) as admin:
        if not _is_allowed(lambda: admin.describe_configs([group])):
            return UiRights.NONE
        may_change = _is_allowed(lambda: admin.alter_configs({group: {}}, is_validated_only=True))
        return UiRights.CHANGE if may_change else UiRights.READ


def _is_allowed(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return False
    return True


def _is_usable(text: str) -> bool:
    return 0 < len(text) <= MAX_TEXT_CHARACTERS and text.isprintable()
