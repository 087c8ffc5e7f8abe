"""ACLs: who may do what. A filter in the query selects those that are shown or deleted."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from log_service.client import AclBinding, AclFilter
from log_service.client.admin.access import (
    CLUSTER_NAME,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
)
from log_service.http.rest_proxy.bodies import (
    as_object,
    json_response,
    list_of,
    read_object,
    refuse_unknown,
    text_of,
)
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v3.documents import ClusterCall, Document
from log_service.http.server.values import HttpResponse

CHOICES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "resource_type": RESOURCE_TYPES,
        "pattern_type": PATTERN_TYPES,
        "operation": OPERATIONS,
        "permission": PERMISSIONS,
    }
)
TEXTS: Final = ("resource_name", "principal", "host")
FIELDS: Final = (*CHOICES, *TEXTS)


async def list_acls(at: ClusterCall) -> HttpResponse:
    """Return the ACLs that the query selects."""
    found = await at.admin.describe_acls(acl_filter(dict(at.call.request.query)))
    return at.listed("KafkaAclList", ("acls",), (_acl(at, each) for each in found))


async def create_acl(at: ClusterCall) -> HttpResponse:
    """Create one ACL. The response has a link that selects only this ACL."""
    acl = acl_binding(await read_object(at.call.request))
    await at.admin.create_acls([acl])
    return HttpResponse(status=201, headers=(("location", _link(at, acl)),))


async def create_acls(at: ClusterCall) -> HttpResponse:
    """Create several ACLs."""
    body = await read_object(at.call.request)
    refuse_unknown(body, ("data",), "The body")
    given = list_of(body, "data", max_count=1_000)
    bindings = [acl_binding(as_object(each, "An item of data")) for each in given]
    if bindings:
        await at.admin.create_acls(bindings)
    return HttpResponse(status=201)


async def delete_acls(at: ClusterCall) -> HttpResponse:
    """Delete the ACLs that the query selects, and return them."""
    query = dict(at.call.request.query)
    if not query.keys() & set(FIELDS):
        raise RestError(400, "a deletion names at least one field, such as principal=User:ann")
    found = await at.admin.delete_acls([acl_filter(query)])
    return json_response({"data": [_acl(at, each) for each in found]})


def acl_filter(query: Mapping[str, str]) -> AclFilter:
    """Return the filter in a query.

    Raises:
        RestError: 400, a parameter is unknown, or a value is not valid for its parameter.
    """
    unknown = sorted(query.keys() - set(FIELDS))
    if unknown:
        raise RestError(400, f"{unknown[0][:100]} is no field of an ACL")
    chosen = {name: _choice(name, query.get(name, "any"), 400) for name in CHOICES}
    return AclFilter(
        name=query.get("resource_name"),
        principal=query.get("principal"),
        host=query.get("host"),
        **chosen,
    )


def acl_binding(body: Mapping[str, Any]) -> AclBinding:
    """Return the ACL in a body.

    Raises:
        RestError: 422, a field is unknown, missing, or not valid.
    """
    refuse_unknown(body, FIELDS, "An ACL")
    given = {"pattern_type": "literal", "permission": "allow", **body}
    chosen = dict(_chosen(given))
    is_cluster = chosen["resource_type"] == "cluster"
    return AclBinding(
        name=text_of(given, "resource_name", default=CLUSTER_NAME if is_cluster else None),
        principal=text_of(given, "principal"),
        host=text_of(given, "host", default="*"),
        **chosen,
    )


def _chosen(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in CHOICES:
        value = _choice(name, text_of(given, name), 422)
        if value in {"any", "match"}:
            raise RestError(422, f"{name} of an ACL cannot be {value.upper()}.")
        yield name, value


def _choice(name: str, text: str, code: int) -> str:
    if text.lower() not in CHOICES[name]:
        allowed = ", ".join(each.upper() for each in CHOICES[name])
        raise RestError(code, f"{name} is {text[:100]!r}; it may be {allowed}")
    return text.lower()


def _acl(at: ClusterCall, acl: AclBinding) -> Document:
    document = at.document("KafkaAcl", ("acls",), (), **_fields(acl))
    document["metadata"]["self"] = _link(at, acl)
    return document


def _fields(acl: AclBinding) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.upper(),
        "resource_name": acl.name,
        "pattern_type": acl.pattern_type.upper(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.upper(),
        "permission": acl.permission.upper(),
    }


def _link(at: ClusterCall, acl: AclBinding) -> str:
    """Return the URL whose query selects exactly one ACL, so that a DELETE deletes no other."""
    return f"{at.link('acls')}?{urlencode(_fields(acl), safe=':*')}"
