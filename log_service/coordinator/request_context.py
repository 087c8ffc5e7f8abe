"""The context of a coordinator's request: its client, its version, its reply address."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

VisibleOf = Callable[[Iterable[str]], set[str]]
"""Returns the subset of some topics that a client is allowed to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The context of a request: its version, its client, and the address of its response.

    Decisions may depend on the version.
    """

    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable
    visible: VisibleOf | None = None
    """Returns the topics that the client may see. None means that it may see all topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClient:
    """The client of a request, and the version of the request."""

    api_version: int
    client_id: str
    client_host: str
    visible: VisibleOf | None = None

    def context(self, reply_to: Hashable) -> RequestContext:
        """Return the context for a shard, with the address of the response."""
        return RequestContext(
            api_version=self.api_version,
            client_id=self.client_id,
            client_host=self.client_host,
            reply_to=reply_to,
            visible=self.visible,
        )
