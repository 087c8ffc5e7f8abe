"""The context of a request that a coordinator decides on."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The request's version (behaviour differs by it), the client that sent it, and where the response goes."""

    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable
