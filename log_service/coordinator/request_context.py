"""Who sent a request that a coordinator decides on, and where its response goes."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The request's version (behaviour differs by it), the client that sent it, and where the response goes."""

    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClient:
    """Who sent a request, and in which version."""

    api_version: int
    client_id: str
    client_host: str

    def context(self, reply_to: Hashable) -> RequestContext:
        """Return what a shard is told."""
        return RequestContext(api_version=self.api_version, client_id=self.client_id, client_host=self.client_host, reply_to=reply_to)
