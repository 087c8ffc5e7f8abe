"""Checks passwords of the cluster's own users by a login at the cluster.

So no second store of passwords is needed. Only one server of the cluster compares a password, so
that one guess here is one guess at the cluster. A client that knows several servers would try a
wrong password at each of them. So each server has a client of its own, and the next server gets
the login only if one does not respond.
"""

import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio

from log_service.client import Admin, ConfigError, ErrorCode, KafkaError
from log_service.common.env import Env
from log_service.common.log_lines import escaped
from log_service.common.secrets import SecretText
from log_service.http.server.values import HttpError

ANSWER_MS: Final = 10_000
MAX_ASKED: Final = 3
"""Most servers that are tried in one login. They share ``ANSWER_MS``."""

logger = logging.getLogger(__name__)


class ClusterLogins:
    """Checks passwords by logging in at the cluster. ``check`` is a ``CheckPassword``.

    ``servers`` are the addresses of the listener, separated by commas. ``settings`` are the
    settings of a client, without user and password.

    Raises:
        ConfigError: ``settings`` name no mechanism with passwords.
    """

    def __init__(self, servers: str, settings: Mapping[str, Any], env: Env | None = None) -> None:
        if str(settings.get("sasl_mechanism", "")).partition("-")[0] not in {"SCRAM", "PLAIN"}:
            text = "logins at the cluster need sasl.mechanism=SCRAM-SHA-512"
            raise ConfigError(f"{text}, or another mechanism with passwords")
        self._settings = dict(settings)
        self._env = env
        self._servers = deque(each.strip() for each in servers.split(","))
        """The servers. One that did not respond comes last."""

    def __repr__(self) -> str:
        return f"<ClusterLogins at {','.join(self._servers)}>"

    async def check(self, user: str, password: SecretText) -> str | None:
        """Return the principal of a user, None if the cluster refuses user or password.

        Raises:
            HttpError: 503, the cluster did not respond.
        """
        servers = tuple(self._servers)[:MAX_ASKED]
        login = {"sasl_username": user, "sasl_password": password}
        limit_ms = {"default_api_timeout_ms": ANSWER_MS // len(servers)}
        for server in servers:
            try:
                is_right = await self._is_right(server, {**self._settings, **login, **limit_ms})
            except (KafkaError, ConfigError) as error:
                text = "%s does not say whether the password of %s is right: %s"
                logger.warning(text, server, escaped(user), escaped(str(error)))
                if self._servers[0] == server:
                    self._servers.rotate(-1)
                continue
            return f"User:{user}" if is_right else None
        raise HttpError(503, "the cluster does not respond to logins", (("retry-after", "1"),))

    async def _is_right(self, server: str, settings: dict[str, Any]) -> bool:
        try:
            # Trust stores are read and keys are derived here, which may take a while.
            make = partial(Admin, server, env=self._env, **settings)
            async with await trio.to_thread.run_sync(make) as admin:
                await admin.describe_cluster()
        except KafkaError as error:
            if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                return False
            raise
        return True
