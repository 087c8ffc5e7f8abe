"""Bounds and deadlines of one HTTP server. Each of them is on by default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of a server. A route may have its own limit of bodies and its own deadline."""

    max_connection_count: int = 1_000
    max_connection_count_per_host: int = 250
    max_open_request_count: int = 256
    """Requests whose handler has begun and whose response is not complete."""
    max_open_request_count_per_host: int = 128
    """The same for one address, so that slow readers there do not keep others from being served."""
    max_target_bytes: int = 8 << 10
    max_head_bytes: int = 32 << 10
    """The request line and all headers."""
    max_header_count: int = 100
    max_query_pair_count: int = 100
    max_body_bytes: int = 1 << 20
    max_buffered_body_bytes: int = 64 << 20
    """Bodies in memory, over all connections."""
    max_buffered_body_bytes_per_host: int = 32 << 20
    head_deadline_ms: int = 10_000
    body_deadline_ms: int = 30_000
    """The time for a whole body. On a route that streams it is the time for each piece."""
    handler_deadline_ms: int = 60_000
    """The time until a handler returns its response.

    The pieces of that response have no deadline.
    """
    write_deadline_ms: int = 30_000
    """For each piece of a response, of at most 64 KiB."""
    idle_deadline_ms: int = 60_000
    """Between two requests of a connection."""
    retry_after_s: int = 1
    """The pause that a busy server asks clients for."""
