"""Authenticates requests by password, token, the certificate of the connection, or not at all.

An ``Authorization`` header takes precedence over a certificate. A service may require both. A
certificate alone is then not a login. A service that offers neither passwords nor tokens refuses
every ``Authorization``. A client without any of them is ``User:ANONYMOUS`` if that is allowed.
Without TLS passwords and tokens are readable on the wire. The service has to prevent that.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from log_service.common.env import Clock
from log_service.common.log_lines import escaped
from log_service.common.quiet_log import QuietLogger
from log_service.http.server.passwords import CheckPassword, Login, Passwords, parse_basic
from log_service.http.server.values import ANONYMOUS, HttpError, HttpRequest
from log_service.security.sasl.oauthbearer import TokenRefusedError, Validate

LOG_WINDOW_MS: Final = 60_000
MAX_LINES_PER_WINDOW: Final = 20
TOKEN: Final = re.compile(r"[-_.~+/0-9A-Za-z]+=*")

CheckToken = Callable[[str], Awaitable[str | None]]
"""Return the principal of a token, None if it is refused.

Raises HttpError if it cannot be checked.
"""

logger = logging.getLogger(__name__)


class Authentication:
    """Authenticates the requests of one service. It is used as ``HttpService.authenticate``."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Random,
        check_password: CheckPassword | None = None,
        check_token: CheckToken | None = None,
        is_anonymous_allowed: bool = False,
        is_certificate_enough: bool = True,
        realm: str = "tidelog",
    ) -> None:
        self._passwords = None
        self._check_token = check_token
        self._is_anonymous_allowed = is_anonymous_allowed
        self._is_certificate_enough = is_certificate_enough
        self._challenges: list[tuple[str, str]] = []
        self._log = QuietLogger(logger, clock.monotonic_ms, LOG_WINDOW_MS, MAX_LINES_PER_WINDOW)
        if check_password is not None:
            self._passwords = Passwords(check_password, clock, rng)
            self._challenges.append(("www-authenticate", f'Basic realm="{realm}", charset="UTF-8"'))
        if check_token is not None:
            self._challenges.append(("www-authenticate", f'Bearer realm="{realm}"'))

    def __repr__(self) -> str:
        return f"<Authentication {[text for _, text in self._challenges]}>"

    async def __call__(self, request: HttpRequest) -> str:
        """Return the principal of a request.

        Raises:
            HttpError: 401, the client has to log in or the login is wrong. The headers name the
                ways to log in. Another status if logins cannot be checked now.
        """
        text = request.headers.get("authorization")
        if text is None:
            principal = request.principal if self._is_certificate_enough else ANONYMOUS
            if principal == ANONYMOUS and not self._is_anonymous_allowed:
                raise self._refusal("log in first")
            return principal
        return await self._by_header(text, request.peer)

    async def _by_header(self, text: str, peer: str) -> str:
        """Return the principal of an ``Authorization`` header.

        Raises:
            HttpError: 401, the login is wrong. Another status if it cannot be checked now.
        """
        scheme, _, credentials = text.partition(" ")
        principal = None
        if scheme.lower() == "basic" and self._passwords is not None:
            login = parse_basic(credentials.strip(), peer)
            principal = None if login is None else await self._by_password(self._passwords, login)
        elif scheme.lower() == "bearer" and self._check_token is not None:
            principal = await self._by_token(self._check_token, credentials.strip(), peer)
        if principal is None:
            raise self._refusal("the login is refused")
        return principal

    async def _by_password(self, passwords: Passwords, login: Login) -> str | None:
        principal = await passwords.principal_of(login)
        if principal is None:
            text = "The login of %s from %s is refused: user or password is wrong"
            self._log.warning("password", text, escaped(login.user), login.address)
        return principal

    async def _by_token(self, check: CheckToken, token: str, address: str) -> str | None:
        principal = await check(token) if TOKEN.fullmatch(token) else None
        if principal is None:
            self._log.warning("token", "The login from %s is refused: its token is none", address)
        return principal

    def _refusal(self, text: str) -> HttpError:
        return HttpError(401, text, tuple(self._challenges))


def token_check(validate: Validate) -> CheckToken:
    """Return a function that checks tokens like a broker's OAUTHBEARER listener, by ``validate``.

    The principal is a user with the token's subject as its name.
    """

    async def check(token: str) -> str | None:
        try:
            return f"User:{validate(token).subject}"
        except TokenRefusedError as error:
            logger.debug("A token is refused: %s", error)
            return None

    return check
