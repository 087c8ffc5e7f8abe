"""The context of a request: the clients of its login, and the links of its response.

Every handler of the proxy gets a ``Call``. This module leases the clients of the call's login, and
turns errors of the cluster and of the schema registry into error responses.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from log_service.client import Admin, ConfigError, KafkaError, Producer, SchemaRegistryError
from log_service.common.env import Env
from log_service.http.cluster_clients.credentials import Credentials, credentials_of
from log_service.http.cluster_clients.pool import ClusterClients, LoginClients
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import JSON, json_response
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.settings import RestSettings
from log_service.http.rest_proxy.streams import Streams
from log_service.http.rest_proxy.v1.shared_readers import SharedReaders
from log_service.http.server.values import Handler, HttpError, HttpRequest, HttpResponse

if TYPE_CHECKING:
    from log_service.http.rest_proxy.v2.instances import ConsumerInstances


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """The parts of a proxy that requests to one listener use. Links begin with ``scheme``."""

    clients: ClusterClients
    settings: RestSettings
    env: Env
    instances: "ConsumerInstances"
    streams: Streams
    readers: SharedReaders
    scheme: str = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request with the clients of its login."""

    context: RestContext
    request: HttpRequest
    clients: LoginClients

    @property
    def credentials(self) -> Credentials | None:
        """The login of the request."""
        return self.clients.credentials

    async def admin(self) -> Admin:
        """Return the admin client of the login."""
        return await self.clients.admin()

    async def producer(self) -> Producer:
        """Return the producer of the login."""
        return await self.clients.producer()

    def value(self, name: str) -> str:
        """Return the value of a placeholder in the path."""
        return self.request.path_values[name]

    def link(self, *parts: object) -> str:
        """Return the URL of a path of this proxy. The parts of the path are percent-encoded."""
        host = self.context.settings.host_name or self.request.headers.get("host", "localhost")
        path = "/".join(quote(str(part), safe="-:") for part in parts)
        return f"{self.context.scheme}://{host}/{path}"


CallHandler = Callable[[Call], Awaitable[HttpResponse]]
ContentType = Callable[[HttpRequest], str]


def json_type(_request: HttpRequest) -> str:
    """Return the content type of error responses for routes without content negotiation."""
    return JSON


def handled(
    context: RestContext, handler: CallHandler, content_type: ContentType = json_type
) -> Handler:
    """Wrap a handler so that clients are leased for it, and errors become error responses.

    ``content_type`` chooses the type of an error response.
    """

    async def respond(request: HttpRequest) -> HttpResponse:
        try:
            async with context.clients.lease(credentials_of(request)) as clients:
                return await handler(Call(context=context, request=request, clients=clients))
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            return error_response(refusal, content_type(request))

    respond.__doc__ = handler.__doc__  # the description of the API shows it
    return respond


def refusal_of(error: Exception) -> RestError | None:
    """Convert an error to a refusal of the request. Return None for a bug of the proxy."""
    match error:
        case RestError():
            return error
        case KafkaError():
            return errors.of_cluster(error)
        case SchemaRegistryError():
            return errors.of_registry(error)
        case ConfigError():
            return errors.of_settings(error)
        case HttpError():
            return errors.of_http(error)
        case _:
            return None


def error_response(error: RestError, content_type: str = JSON) -> HttpResponse:
    """Return the error response of a refused request."""
    body: Mapping[str, object] = {"error_code": error.code, "message": error.text}
    made = json_response(body, status=error.status, content_type=content_type)
    return HttpResponse(
        status=made.status, body=made.body, content_type=content_type, headers=error.headers
    )


def http_error(error: HttpError) -> HttpResponse:
    """Return the error response of a request that the server refused before any handler."""
    return error_response(errors.of_http(error))
