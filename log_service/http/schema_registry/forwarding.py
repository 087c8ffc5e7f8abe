"""Sends a write to the instance that leads, and returns its response unchanged.

This module decides which headers are forwarded. It has one pool of connections, and bounds the time
and the size of a response. A header marks a forwarded request. The instance that gets it must not
forward it again. Redirects are not followed, because the request has the client's password or
token. A client that logged in by its certificate has neither. So its name and address are sent
instead. The leader accepts them if this instance's principal has the right to name callers.

A write is sent once. Without a response it is unknown whether the leader carried it out.
"""

import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import trio

from log_service.common.errors import TidelogError
from log_service.config.client_security import client_security
from log_service.config.security import TlsConfig
from log_service.http.schema_registry.authorization import CALLER_HEADER, CALLER_HOST_HEADER
from log_service.http.server.values import ANONYMOUS, HttpRequest, HttpResponse
from log_service.security.tls.contexts import client_context

FORWARD_HEADER = "X-Forward"
USER_AGENT = "tidelog-schema-registry"
PASSED_ON = (
    "authorization",
    "content-type",
    "accept",
    "user-agent",
    "confluent-accept-unknown-properties",
)
"""Headers of the client that the leader needs: its login, and the media types of its body and of
the response.
"""


class ForwardingFailed(TidelogError):  # noqa: N818 - it says what happened
    """The leader cannot be reached, or did not respond in time. The API's error code is 50003."""


class LeaderAway(ForwardingFailed):
    """No connection to the leader was made, so the write was certainly not carried out."""


class LeaderUnknown(TidelogError):  # noqa: N818 - it says what is missing
    """This instance knows no leader. The error code in the API is 50004."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingLimits:
    """Bounds of one forwarded request, and of the connections."""

    connect_timeout_s: float = 5.0
    timeout_s: float = 60.0
    max_response_bytes: int = 64 << 20
    max_connections: int = 64


def tls_of(settings: Mapping[str, Any], own: TlsConfig | None = None) -> ssl.SSLContext:
    """Return the TLS context of connections to a leader with an https URL.

    ``own`` is the TLS configuration of this instance's listener. The context presents its
    certificate to the leader, and trusts its authorities. If it has none, the context trusts those
    of the client settings (``ssl_*``), or else those of the system. Reads files, so it blocks.

    Raises:
        ConfigError: a setting is unknown, or a key store or trust store cannot be read.
    """
    config = client_security({"security_protocol": "SSL", **settings}).tls
    assert config is not None, "the protocol is SSL"
    if own is not None:
        has_trust = own.truststore_location is not None or own.truststore_certificates is not None
        config = own if has_trust else replace(own, **_trust_of(config))
    return client_context(config, Path.read_bytes).context


def _trust_of(config: TlsConfig) -> dict[str, Any]:
    return {
        each.name: getattr(config, each.name)
        for each in fields(config)
        if each.name.startswith("truststore")
    }


class Forwarder:
    """Forwards requests to the leader. ``tls`` is for leaders with an https URL."""

    def __init__(self, tls: ssl.SSLContext, limits: ForwardingLimits | None = None) -> None:
        self._limits = limits or ForwardingLimits()
        self._tls = tls
        self._stack = AsyncExitStack()
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._client = await self._stack.enter_async_context(self._new_client())
        return self

    async def renew(self, tls: ssl.SSLContext) -> None:
        """Use other certificates for new connections. Requests in flight keep their connections."""
        self._tls = tls
        if self._client is not None:
            self._client = await self._stack.enter_async_context(self._new_client())

    def _new_client(self) -> httpx.AsyncClient:
        limits = self._limits
        client = httpx.AsyncClient(
            verify=self._tls,
            timeout=httpx.Timeout(limits.timeout_s, connect=limits.connect_timeout_s),
            limits=httpx.Limits(max_connections=limits.max_connections),
            follow_redirects=False,
            trust_env=False,
        )
        client.headers = httpx.Headers({"User-Agent": USER_AGENT})
        for name in ("accept", "accept-encoding"):
            del client.headers[name]
        return client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client = None
        with trio.CancelScope(
            shield=True, deadline=trio.current_time() + self._limits.connect_timeout_s
        ):
            await self._stack.aclose()

    async def forward(self, leader_url: str | None, request: HttpRequest) -> HttpResponse:
        """Return the leader's response to a request, whatever its status is.

        Raises:
            LeaderUnknown: there is no URL.
            LeaderAway: no connection was made.
            ForwardingFailed: the leader did not respond in time, or with too many bytes.
        """
        if leader_url is None:
            raise LeaderUnknown(
                "no instance leads, as far as this one knows: try again in a moment"
            )
        assert self._client is not None, "use it inside 'async with'"
        try:
            return await self._exchange(self._client, leader_url, request)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            text = f"the leader {leader_url} did not respond: {str(error) or type(error).__name__}"
            is_away = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise (LeaderAway if is_away else ForwardingFailed)(text) from error

    async def _exchange(
        self, client: httpx.AsyncClient, leader_url: str, request: HttpRequest
    ) -> HttpResponse:
        limits = self._limits
        url, body, is_too_large = leader_url.rstrip("/") + target_of(request), bytearray(), False
        with trio.move_on_after(limits.timeout_s) as exchange:
            async with client.stream(
                request.method, url, content=request.body, headers=headers_of(request)
            ) as response:
                async for piece in response.aiter_bytes():
                    is_too_large = (
                        is_too_large or len(body) + len(piece) > limits.max_response_bytes
                    )
                    if is_too_large:
                        # ends the loop in its next wait, so that httpx closes all of its iterators
                        exchange.cancel()
                    else:
                        body += piece
        if is_too_large:
            raise ForwardingFailed(
                f"the response of the leader {leader_url} has more than {limits.max_response_bytes}"
                " bytes"
            )
        if exchange.cancelled_caught:
            raise ForwardingFailed(
                f"the leader {leader_url} did not respond within {limits.timeout_s:g} s"
            )
        return HttpResponse(
            status=response.status_code,
            body=bytes(body),
            content_type=response.headers.get("content-type", ""),
        )


def headers_of(request: HttpRequest) -> dict[str, str]:
    """Return the headers with which a client's request is forwarded."""
    passed = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    if "authorization" not in passed and request.principal != ANONYMOUS:
        caller = quote(request.principal, safe=":=, ")
        passed |= {CALLER_HEADER: caller, CALLER_HOST_HEADER: request.peer}
    return {**passed, FORWARD_HEADER: "true"}


def target_of(request: HttpRequest) -> str:
    """Return path and query as the client sent them. The path is still percent-encoded.

    A part that consists of dots may be a subject, and an HTTP client would drop it from a path.
    """
    path = "/".join(
        part.replace(".", "%2E") if part in {".", ".."} else part
        for part in request.path.split("/")
    )
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in request.query
    )
    return f"{path}?{query}" if query else path
