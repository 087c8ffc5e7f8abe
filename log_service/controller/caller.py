"""The client that a broker asks the active controller for."""

from dataclasses import dataclass

from log_service.common.access import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and in which version of the request's API. ``host`` is an address."""

    version: int
    correlation_id: int = 0
    client_id: str | None = None
    principal: Principal = ANONYMOUS
    host: str = ""
    is_token_authenticated: bool = False
    """Whether a delegation token stood for the principal (KIP-48)."""
    is_at_broker: bool = False
    """Whether a broker took the request, which judges what its own files decide; else it came to a controller's listener at once."""
