"""The SASL login on a fresh connection, by a client or by a node that connects to another node.

The module sends SaslHandshake and then SaslAuthenticate. It decides which mechanism the
configuration means, and when an ending session is renewed (KIP-368). A refusal becomes
KafkaError SASL_AUTHENTICATION_FAILED, which is never retried. Salting a password takes milliseconds
and runs in a thread. The last result is stored, so a reconnection does not compute it again.

Invariant: no error and no ``repr`` shows a password or a token. The broker's own texts are shown
unchanged.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.secrets import SecretBytes, SecretText
from log_service.config.client_security import LoginConfig, TokenEndpointConfig
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from log_service.rpc.connection import RpcConnection
from log_service.security.issuer_errors import IssuerError
from log_service.security.sasl.credentials import SCRAM_MECHANISMS
from log_service.security.sasl.jaas import JaasEntry, parse_jaas
from log_service.security.sasl.mechanisms import ClientExchange, LoginError
from log_service.security.sasl.oauth_client import OAuthClient, extensions_of
from log_service.security.sasl.plain import PlainClient
from log_service.security.sasl.scram import TOKEN_AUTHENTICATION, random_text, salted_password
from log_service.security.sasl.scram_client import SaltingWanted, ScramClient

if TYPE_CHECKING:
    from log_service.security.token_endpoint import TokenEndpoint

T = TypeVar("T")

RENEWAL_SHARE: Final = 0.85
"""A session is renewed after this share of its lifetime. Kafka's clients use 0.85 to 0.95."""
MAX_ROUNDS: Final = 8
"""The largest number of SaslAuthenticate requests in one login.

SCRAM takes two, and so does a refused OAUTHBEARER token.
"""
MAX_TOKEN_BYTES: Final = 1 << 16

RunInThread = Callable[[Callable[[], T]], Awaitable[T]]
ReadFile = Callable[[Path], bytes]


class ClientLogin:
    """The client's side of logins.

    One object serves all connections of a client.

    Raises:
        ConfigError: the JAAS text cannot be read, is for another mechanism, or names no user.
    """

    def __init__(
        self,
        config: LoginConfig,
        rng: Random,
        run_in_thread: RunInThread[Any] | None = None,
        read_file: ReadFile | None = None,
    ) -> None:
        self.mechanism = config.mechanism
        self.user: str | None = config.username
        self._password = config.password
        self._token = config.token
        self._extensions: Mapping[str, str] = {}
        self._is_by_token = False
        self._rng = rng
        self._run_in_thread: RunInThread[Any] = run_in_thread or trio.to_thread.run_sync
        self._read_file = read_file or _read_beginning
        self._salted: tuple[SaltingWanted, SecretBytes] | None = None
        entry = None if config.jaas is None else self._entry(config.jaas)
        if entry is not None:
            self._take_options(entry)
        self._endpoint = (
            None if config.endpoint is None else _token_endpoint(config.endpoint, entry)
        )

    def __repr__(self) -> str:
        return f"<ClientLogin {self.mechanism} {self.user or ''}>"

    async def authenticate(self, connection: RpcConnection) -> None:
        """Log in, and again each time before the session of the connection ends.

        Raises:
            KafkaError: the broker refused with SASL_AUTHENTICATION_FAILED,
                UNSUPPORTED_SASL_MECHANISM or ILLEGAL_SASL_STATE; or NETWORK_EXCEPTION,
                REQUEST_TIMED_OUT.
        """
        await connection.negotiate()
        await self._log_in(connection)

    async def _log_in(self, connection: RpcConnection) -> None:
        try:
            if self._endpoint is not None:
                lifetime_ms = await self._log_in_by_endpoint(self._endpoint, connection)
            else:
                exchange = await self._begin()
                await self._shake_hands(connection)
                lifetime_ms = await self._exchange(connection, exchange)
        except LoginError as error:
            raise KafkaError(
                ErrorCode.SASL_AUTHENTICATION_FAILED, f"{self._what(connection)} failed: {error}"
            ) from error
        if lifetime_ms > 0:
            connection.renew_login_after(lifetime_ms / 1_000 * RENEWAL_SHARE, self._log_in)

    async def _log_in_by_endpoint(
        self, endpoint: "TokenEndpoint", connection: RpcConnection
    ) -> int:
        """Log in with a token from an endpoint.

        The token is fetched before the login begins, because a broker does not wait for issuers. A
        temporary failure becomes NETWORK_EXCEPTION. So does the refusal of a cached token, because
        the next login fetches a fresh token.
        """
        try:
            token, is_fresh = await endpoint.token()
        except IssuerError as error:
            code = (
                ErrorCode.NETWORK_EXCEPTION
                if error.may_pass
                else ErrorCode.SASL_AUTHENTICATION_FAILED
            )
            raise KafkaError(code, f"{self._what(connection)} has no token: {error}") from error
        await self._shake_hands(connection)
        try:
            return await self._exchange(connection, OAuthClient(token, self._extensions))
        except (LoginError, KafkaError) as error:
            is_refused = (
                isinstance(error, LoginError) or error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
            )
            if not is_refused:
                raise
            endpoint.forget(token)
            if is_fresh:
                raise
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"{error}; another token is fetched"
            ) from error

    async def _shake_hands(self, connection: RpcConnection) -> None:
        request = SaslHandshakeRequest(mechanism=self.mechanism)
        response = await connection.request_of_login(request, SaslHandshakeResponse)
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(sorted(response.mechanisms)) or "none"
            raise KafkaError(
                code,
                f"{connection.destination} does not take {self.mechanism}: set sasl_mechanism to"
                f" one of {offered}",
            )
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            advice = (
                "its listener has no logins: set security_protocol=PLAINTEXT or SSL, or name the"
                " port of another listener"
            )
            raise KafkaError(
                code, f"{connection.destination} refused the beginning of a login; {advice}"
            )
        if code is not ErrorCode.NONE:
            raise KafkaError(
                code, f"{connection.destination} refused the beginning of a login: {code.name}"
            )

    async def _exchange(
        self, connection: RpcConnection, exchange: "ClientExchange | ScramClient"
    ) -> int:
        """Exchange tokens until both sides are done, and return the session lifetime in ms.

        0 is unlimited.
        """
        token = exchange.first()
        for _ in range(MAX_ROUNDS):
            response = await connection.request_of_login(
                SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse
            )
            if response.error_code:
                code = ErrorCode.of(response.error_code)
                why = "; the broker's log says why" if self.mechanism == "OAUTHBEARER" else ""
                raise KafkaError(
                    code,
                    f"{self._what(connection)} was refused:"
                    f" {response.error_message or code.name}{why}",
                )
            if response.auth_bytes or not exchange.is_complete:
                token = await self._next_token(exchange, response.auth_bytes)
            if exchange.is_complete:
                return response.session_lifetime_ms
        raise LoginError(f"it took more than {MAX_ROUNDS} messages")

    async def _next_token(
        self, exchange: "ClientExchange | ScramClient", server_token: bytes
    ) -> bytes:
        if not isinstance(exchange, ScramClient):
            return exchange.evaluate(server_token)
        wanted = exchange.evaluate(server_token)
        return (
            exchange.resume(await self._salt(wanted))
            if isinstance(wanted, SaltingWanted)
            else wanted
        )

    async def _begin(self) -> "ClientExchange | ScramClient":
        if self.mechanism == "OAUTHBEARER":
            return OAuthClient(await self._fresh_token(), self._extensions)
        assert self.user is not None
        assert self._password is not None
        if self.mechanism == "PLAIN":
            return PlainClient(self.user, self._password)
        nonce = random_text(self._rng.getrandbits)
        return ScramClient(
            SCRAM_MECHANISMS[self.mechanism], self.user, nonce, is_by_token=self._is_by_token
        )

    async def _fresh_token(self) -> SecretText:
        source = self._token
        assert source is not None
        try:
            text = (
                source()
                if callable(source)
                else await self._run_in_thread(lambda: self._read_token(Path(source)))
            )
        except (OSError, UnicodeDecodeError) as error:
            raise LoginError(f"the token cannot be read: {error}") from error
        if not text.strip():
            raise LoginError("the token is empty")
        return SecretText(text.strip())

    def _read_token(self, path: Path) -> str:
        return self._read_file(path)[:MAX_TOKEN_BYTES].decode()

    async def _salt(self, wanted: SaltingWanted) -> SecretBytes:
        if self._salted is None or self._salted[0] != wanted:
            password = self._password
            assert password is not None
            salted: SecretBytes = await self._run_in_thread(
                lambda: salted_password(wanted.mechanism, password, wanted.salt, wanted.iterations)
            )
            self._salted = (wanted, salted)
        return self._salted[1]

    def _entry(self, text: SecretText) -> JaasEntry:
        entry = parse_jaas(text.reveal())
        if self.mechanism not in entry.mechanisms:
            raise ConfigError(
                f"sasl_jaas_config has a login module for {', '.join(entry.mechanisms)};"
                f" sasl_mechanism is {self.mechanism}"
            )
        return entry

    def _take_options(self, entry: JaasEntry) -> None:
        if self.mechanism == "OAUTHBEARER":
            self._extensions = extensions_of(entry)
            return
        user, password = entry.option("username"), entry.option("password")
        if not user or not password:
            raise ConfigError(
                'sasl_jaas_config names no user: its options are username="..." and password="..."'
            )
        self.user, self._password = user, SecretText(password)
        self._is_by_token = (entry.option(TOKEN_AUTHENTICATION) or "").lower() == "true"

    def _what(self, connection: RpcConnection) -> str:
        return (
            f"the {self.mechanism} login{f' of {self.user}' if self.user else ''} at"
            f" {connection.destination}"
        )


def _token_endpoint(config: TokenEndpointConfig, entry: JaasEntry | None) -> "TokenEndpoint":
    from log_service.security.token_endpoint import (  # noqa: PLC0415 - other logins have no use for it
        TokenEndpoint,
    )

    return TokenEndpoint(config, entry)


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_TOKEN_BYTES)
