"""Who sent a request that a coordinator decides on, and where its response goes."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

VisibleOf = Callable[[Iterable[str]], set[str]]
"""Returns those of some topics that a client may know of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The request's version (behaviour differs by it), the client that sent it, and where the response goes."""

    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable
    visible: VisibleOf | None = None
    """Which topics the client may know of; None: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClient:
    """Who sent a request, and in which version."""

    api_version: int
    client_id: str
    client_host: str
    visible: VisibleOf | None = None

    def context(self, reply_to: Hashable) -> RequestContext:
        """Return what a shard is told."""
        return RequestContext(
            api_version=self.api_version,
            client_id=self.client_id,
            client_host=self.client_host,
            reply_to=reply_to,
            visible=self.visible,
        )
