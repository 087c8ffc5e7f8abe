"""Documents of version 3: each names its kind, and has links to itself and to its parts.

A request names its cluster by its id. A proxy has exactly one cluster, so any other id is
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
    """A request about the proxy's cluster, with the admin client of its login."""

    call: Call
    admin: Admin
    cluster_id: str

    def value(self, name: str) -> str:
        """Return the value of a placeholder in the path."""
        return self.call.value(name)

    def query(self, name: str) -> str | None:
        """Return a parameter of the query, None if it is missing."""
        return self.call.request.query_value(name)

    def link(self, *parts: object) -> str:
        """Return the URL of a path within the cluster's path."""
        return self.call.link("v3", "clusters", self.cluster_id, *parts)

    def related(self, *parts: object) -> dict[str, str]:
        """Return a link to another document."""
        return {"related": self.link(*parts)}

    def document(
        self, kind: str, path: tuple[object, ...], names: tuple[object, ...], **fields: Any
    ) -> Document:
        """Return a document at a path.

        ``names`` has kinds and names in turn, of which the document's resource name is made. A kind
        with the name None stands there alone.
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
    """Return the response with a list of documents. ``link`` is the URL of the list."""
    head = compact({"kind": kind, "metadata": {"self": link, "next": None}})
    return list_response(documents, before=head[:-1] + b',"data":[', after=b"]}")


ClusterHandler = Callable[[ClusterCall], Awaitable[HttpResponse]]


def in_cluster(handler: ClusterHandler) -> CallHandler:
    """Wrap a handler so that requests about another cluster are refused."""

    async def respond(call: Call) -> HttpResponse:
        return await handler(await cluster_call(call))

    respond.__doc__ = handler.__doc__
    return respond


async def cluster_call(call: Call) -> ClusterCall:
    """Check the cluster id in the path, and return the request with its admin client.

    Raises:
        RestError: 404, the id is of another cluster.
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
