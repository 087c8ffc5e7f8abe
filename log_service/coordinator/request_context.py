"""Context of a coordinator's request: its client, its version, its reply address."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

VisibleOf = Callable[[Iterable[str]], set[str]]
"""Returns the subset of some topics that a client is allowed to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Context of a request: its version, the client that sent it, and where the response goes.

    Behaviour differs by version.
    """

    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable
    visible: VisibleOf | None = None
    """Returns the topics that the client may see; None if it may see all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClient:
    """The client of a request, and the version of the request."""

    api_version: int
    client_id: str
    client_host: str
    visible: VisibleOf | None = None

    def context(self, reply_to: Hashable) -> RequestContext:
        """Return the context that a shard gets."""
        return RequestContext(
            api_version=self.api_version,
            client_id=self.client_id,
            client_host=self.client_host,
            reply_to=reply_to,
            visible=self.visible,
        )
