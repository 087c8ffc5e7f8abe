"""Documents of version 3: each names its kind, and has links to itself and to its parts.

A request names its cluster by its id. A proxy stands in front of one cluster, so another id is
unknown.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from log_service.client import Admin
from log_service.http.rest_proxy.bodies import compact, json_response, list_response
from log_service.http.rest_proxy.context import Call, CallHandler
from log_service.http.rest_proxy.errors import RestError
from log_service.http.server.values import HttpResponse

Document = dict[str, Any]
NO_CONTENT = HttpResponse(status=204)
MULTI_STATUS: Final = 207
"""The status of a batch, whose parts have outcomes of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCall:
    """A request about one cluster."""

    call: Call
    admin: Admin
    cluster_id: str

    def value(self, name: str) -> str:
        """Return the value of a placeholder in the path."""
        return self.call.value(name)

    def query(self, name: str) -> str | None:
        """Return a parameter of the query."""
        return self.call.request.query_value(name)

    def link(self, *parts: object) -> str:
        """Return the URL of a path below the cluster."""
        return self.call.link("v3", "clusters", self.cluster_id, *parts)

    def related(self, *parts: object) -> dict[str, str]:
        """Return a link to another document."""
        return {"related": self.link(*parts)}

    def document(
        self, kind: str, path: tuple[object, ...], names: tuple[object, ...], **fields: Any
    ) -> Document:
        """Return a document at a path. ``names`` are kinds and names of its resource name.

        A part whose name is None has a kind alone.
        """
        pairs = zip(names[::2], names[1::2], strict=True)
        resource = "".join(
            f"/{kind_of}" if name is None else f"/{kind_of}={name}" for kind_of, name in pairs
        )
        metadata = {
            "self": self.link(*path),
            "resource_name": f"crn:///kafka={self.cluster_id}{resource}",
        }
        return {"kind": kind, "metadata": metadata, "cluster_id": self.cluster_id, **fields}

    def listed(
        self, kind: str, path: tuple[object, ...], documents: Iterable[Document]
    ) -> HttpResponse:
        """Return the response with a list of documents at a path."""
        return listed(kind, self.link(*path), documents)


def listed(kind: str, link: str, documents: Iterable[Document]) -> HttpResponse:
    """Return the response with a list of documents."""
    head = compact({"kind": kind, "metadata": {"self": link, "next": None}})
    return list_response(documents, before=head[:-1] + b',"data":[', after=b"]}")


ClusterHandler = Callable[[ClusterCall], Awaitable[HttpResponse]]


def in_cluster(handler: ClusterHandler) -> CallHandler:
    """Return a handler that refuses requests about another cluster."""

    async def respond(call: Call) -> HttpResponse:
        return await handler(await cluster_call(call))

    respond.__doc__ = handler.__doc__
    return respond


async def cluster_call(call: Call) -> ClusterCall:
    """Return a request about the cluster that its path names.

    Raises:
        RestError: 404, it is another cluster.
    """
    admin, wanted = await call.admin(), call.value("cluster")
    known = admin.cluster.view.cluster_id
    if known is None:
        known = (await admin.describe_cluster()).cluster_id
    if wanted != known:
        raise RestError(404, f"Cluster {wanted[:100]} cannot be found.")
    return ClusterCall(call=call, admin=admin, cluster_id=wanted)


def created(document: Document) -> HttpResponse:
    """Return the response with a document that was just created."""
    made = json_response(document, status=201)
    location = ("location", document["metadata"]["self"])
    return HttpResponse(
        status=201, body=made.body, content_type=made.content_type, headers=(location,)
    )
