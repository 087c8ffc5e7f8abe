"""Takes the login from a request, and makes the settings of a client that logs in with it.

A login is a user with a password, or a token. This module does not check a login. The cluster does
that when a client connects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.client_security import SASL_SETTINGS
from log_service.http.server.authentication import TOKEN
from log_service.http.server.passwords import parse_basic
from log_service.http.server.values import HttpError, HttpRequest

PASSWORD_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
REGISTRY_LOGINS: Final = ("basic_auth_user_info", "bearer_auth_token")
"""The settings of a registry's client that log in."""
TOKEN_MECHANISM: Final = "OAUTHBEARER"  # noqa: S105 - the name of a mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """One login: ``user`` and ``password``, or only ``token``."""

    user: str = ""
    password: SecretText = field(default=SecretText(""))
    token: SecretText | None = None

    def settings(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a client with this login, and all other settings of ``base``.

        Raises:
            ConfigError: ``base`` connects without logins.
        """
        kept = {name: value for name, value in base.items() if name not in SASL_SETTINGS}
        if not str(base.get("security_protocol", "")).startswith("SASL"):
            text = "security.protocol=SASL_SSL is missing: clients cannot log in at the cluster"
            raise ConfigError(text)
        if self.token is not None:
            return {
                **kept,
                "sasl_mechanism": TOKEN_MECHANISM,
                "sasl_oauthbearer_token": self.token.reveal,
            }
        mechanism = base.get("sasl_mechanism")
        if mechanism not in PASSWORD_MECHANISMS:
            mechanism = PASSWORD_MECHANISMS[0]
        login = {"sasl_username": self.user, "sasl_password": self.password}
        return {**kept, "sasl_mechanism": mechanism, **login}

    def registry_settings(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a schema registry client: ``base`` with this login."""
        kept = {name: value for name, value in base.items() if name not in REGISTRY_LOGINS}
        if self.token is not None:
            return {**kept, "bearer_auth_token": self.token.reveal()}
        return {**kept, "basic_auth_user_info": f"{self.user}:{self.password.reveal()}"}


def credentials_of(request: HttpRequest) -> Credentials | None:
    """Return the login in the header ``Authorization``, or None without that header.

    Raises:
        HttpError: 401, the header has no valid login.
    """
    text = request.headers.get("authorization")
    if text is None:
        return None
    scheme, _, content = text.partition(" ")
    content = content.strip()
    if scheme.lower() == "basic":
        login = parse_basic(content, request.peer)
        if login is not None:
            return Credentials(user=login.user, password=login.password)
    elif scheme.lower() == "bearer" and TOKEN.fullmatch(content):
        return Credentials(token=SecretText(content))
    raise HttpError(401, "Authorization holds neither a user with a password nor a token")
