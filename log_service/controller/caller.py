"""The client for which a broker sends a request to the active controller."""

from dataclasses import dataclass

from log_service.common.access import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request, and the request's API version. ``host`` is an IP address."""

    version: int
    correlation_id: int = 0
    client_id: str | None = None
    principal: Principal = ANONYMOUS
    host: str = ""
    is_token_authenticated: bool = False
    """Whether the principal logged in with a delegation token (KIP-48)."""
    is_at_broker: bool = False
    """Whether the request came through a broker, which has checked it against its own files.

    Otherwise it came to a listener of the controller directly.
    """
