"""Endpoints that describe the registry itself, and those that clients probe."""

from log_service import __version__
from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.bodies import json_response
from log_service.http.schema_registry.registry import Registry
from log_service.http.server.values import HttpRequest, HttpResponse


class AboutEndpoints:
    """Answers the probes of clients and consoles."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def root(self, request: HttpRequest) -> HttpResponse:
        """Return an empty object, by which clients check that the registry responds."""
        return json_response(request, {})

    async def cluster_id(self, request: HttpRequest) -> HttpResponse:
        """Return the id of the Kafka cluster and the name of the group of registries."""
        clusters = {
            "kafka-cluster": self._registry.identity.cluster_id,
            "schema-registry-cluster": self._registry.identity.group,
        }
        return json_response(request, {"scope": {"path": [], "clusters": clusters}})

    async def version(self, request: HttpRequest) -> HttpResponse:
        """Return the version of the registry."""
        return json_response(request, {"version": __version__, "commitId": ""})

    async def deployment(self, request: HttpRequest) -> HttpResponse:
        """Return the attributes of the deployment. There are none."""
        return json_response(request, {"attributes": []})

    async def association(self, request: HttpRequest) -> HttpResponse:
        """Refuse a lookup of the subject that is associated with a topic.

        Subjects are bound to topics by their names alone. Clients with the associated name
        strategy then fall back to the name of the topic.
        """
        raise errors.association_not_found(request.path_values["resource"])
