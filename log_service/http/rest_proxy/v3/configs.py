"""Configs of topics, of single brokers, and of all brokers of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from log_service.client import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ItemsFailed,
    NewTopic,
)
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import (
    as_object,
    json_response,
    list_of,
    read_object,
    refuse_unknown,
    text_of,
)
from log_service.http.rest_proxy.cluster_reading import topic_of
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v3.clusters import broker_of
from log_service.http.rest_proxy.v3.documents import MULTI_STATUS, NO_CONTENT, ClusterCall, Document
from log_service.http.rest_proxy.v3.topics import config_value, flag_of
from log_service.http.server.values import HttpResponse

OPERATIONS: Final = {"SET": ConfigOperation.SET, "DELETE": ConfigOperation.DELETE}
Change = ConfigChange | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of configs: a topic, a broker or all brokers.

    The fields besides ``resource`` are parts of the documents that show its configs.
    """

    resource: ConfigResource
    kind: str
    path: tuple[object, ...]
    names: tuple[object, ...]
    fields: Mapping[str, object]

    def document(self, at: ClusterCall, entry: ConfigEntry) -> Document:
        """Return one config as the API shows it."""
        return at.document(
            self.kind,
            (*self.path, entry.name),
            (*self.names, "config", entry.name),
            **self.fields,
            name=entry.name,
            value=entry.value,
            is_default=entry.is_default,
            is_read_only=entry.is_read_only,
            is_sensitive=entry.is_sensitive,
            source=entry.source,
            synonyms=[
                {"name": name, "value": value, "source": source}
                for name, value, source in entry.synonyms
            ],
        )


async def owner_of(at: ClusterCall) -> Owner:
    """Return the topic, the broker or all brokers whose configs a request is about.

    Raises:
        RestError: the topic or broker in the path does not exist.
    """
    given = at.call.request.path_values
    if "topic" in given:
        name = (await topic_of(at.admin, at.value("topic"))).name
        return _topic_owner(name)
    if "broker" in given:
        return _broker_owner((await broker_of(at)).node_id)
    return Owner(
        resource=ConfigResource.all_brokers(),
        kind="KafkaClusterConfig",
        path=("broker-configs",),
        names=(),
        fields={"config_type": "BROKER"},
    )


def _broker_owner(broker: int) -> Owner:
    return Owner(
        resource=ConfigResource.broker(broker),
        kind="KafkaBrokerConfig",
        path=("brokers", broker, "configs"),
        names=("broker", broker),
        fields={"broker_id": broker},
    )


def _topic_owner(name: str) -> Owner:
    return Owner(
        resource=ConfigResource.topic(name),
        kind="KafkaTopicConfig",
        path=("topics", name, "configs"),
        names=("topic", name),
        fields={"topic_name": name},
    )


async def list_configs(at: ClusterCall) -> HttpResponse:
    """Return the configs of a topic, a broker, or all brokers."""
    owner = await owner_of(at)
    entries = (await at.admin.describe_configs([owner.resource]))[owner.resource]
    documents = (owner.document(at, each) for each in entries.values())
    return at.listed(f"{owner.kind}List", owner.path, documents)


async def list_new_topic_configs(at: ClusterCall) -> HttpResponse:
    """Return the configs that a topic would have if it were created without configs of its own."""
    name = at.value("topic")
    entries = await at.admin.describe_new_topic(NewTopic(name=name))
    owner = _topic_owner(name)
    documents = (owner.document(at, entries[each]) for each in sorted(entries))
    return at.listed(f"{owner.kind}List", ("topics", name, "default-configs"), documents)


async def list_all_topic_configs(at: ClusterCall) -> HttpResponse:
    """Return the configs of all topics."""
    topics = await at.admin.list_topics(is_internal_included=True)
    owners = [_topic_owner(each.name) for each in topics]
    return await _all_configs(at, "KafkaTopicConfigList", "topics", owners)


async def list_all_broker_configs(at: ClusterCall) -> HttpResponse:
    """Return the configs of each broker."""
    nodes = (await at.admin.describe_cluster()).nodes
    owners = [_broker_owner(each.node_id) for each in nodes]
    return await _all_configs(at, "KafkaBrokerConfigList", "brokers", owners)


async def _all_configs(
    at: ClusterCall, kind: str, path: str, owners: Sequence[Owner]
) -> HttpResponse:
    found = await at.admin.describe_configs([each.resource for each in owners]) if owners else {}
    documents = (
        owner.document(at, entry) for owner in owners for entry in found[owner.resource].values()
    )
    return at.listed(kind, (path, "-", "configs"), documents)


async def get_config(at: ClusterCall) -> HttpResponse:
    """Return one config."""
    owner, entry = await _named(at)
    return json_response(owner.document(at, entry))


async def put_config(at: ClusterCall) -> HttpResponse:
    """Set one config."""
    body = await read_object(at.call.request)
    refuse_unknown(body, ("value",), "The body")
    change = {at.value("name"): config_value(body.get("value"))}
    await _alter(at, await owner_of(at), change)
    return NO_CONTENT


async def delete_config(at: ClusterCall) -> HttpResponse:
    """Reset one config to its default."""
    await _alter(at, await owner_of(at), {at.value("name"): None})
    return NO_CONTENT


async def alter_configs(at: ClusterCall) -> HttpResponse:
    """Set and reset several configs, all or none."""
    body = await read_object(at.call.request)
    refuse_unknown(body, ("data", "validate_only"), "The body")
    changes = _changes_of(body, "data")
    owner = await owner_of(at)
    await _alter(at, owner, changes, is_validated_only=flag_of(body, "validate_only"))
    return NO_CONTENT


async def alter_topics_configs(at: ClusterCall) -> HttpResponse:
    """Set and reset configs of several topics. The changes of one topic are made all or none."""
    body = await read_object(at.call.request)
    refuse_unknown(body, ("data", "validate_only"), "The body")
    is_validated_only = flag_of(body, "validate_only")
    changes: dict[ConfigResource, Mapping[str, Change]] = {}
    for each in list_of(body, "data", max_count=1_000):
        fields = as_object(each, "An item of data")
        refuse_unknown(fields, ("topic_name", "configs"), "An item of data")
        resource = ConfigResource.topic(text_of(fields, "topic_name"))
        if resource in changes:
            raise RestError(422, f"Topic {resource.name[:300]} stands in data twice.")
        changes[resource] = _changes_of(fields, "configs")
    try:
        await at.admin.alter_configs(changes, is_validated_only=is_validated_only)
    except ItemsFailed as error:
        refusals = {each.name: errors.of_cluster(why) for each, why in error.errors.items()}
        failures = [
            {"topic_name": name, "error_code": why.code, "message": why.text}
            for name, why in refusals.items()
        ]
        return json_response({"failures": failures}, status=MULTI_STATUS)
    return NO_CONTENT


def _changes_of(fields: Mapping[str, Any], name: str) -> dict[str, Change]:
    """Return the config changes in the list ``name`` of a body. None resets a config.

    Raises:
        RestError: 422, an item is not valid.
    """
    changes: dict[str, Change] = {}
    for each in list_of(fields, name, max_count=1_000):
        item = as_object(each, f"An item of {name}")
        refuse_unknown(item, ("name", "operation", "value"), f"An item of {name}")
        operation = OPERATIONS.get(text_of(item, "operation", default="SET").upper())
        if operation is None:
            raise RestError(422, f"operation may be {', '.join(OPERATIONS)}.")
        value = config_value(item.get("value"))
        changes[text_of(item, "name")] = value if operation is ConfigOperation.SET else None
    return changes


async def _alter(
    at: ClusterCall,
    owner: Owner,
    changes: Mapping[str, Change],
    *,
    is_validated_only: bool = False,
) -> None:
    """Change configs of a topic, of a broker, or of all brokers.

    An unknown config of a topic or a broker is refused. For all brokers the cluster lists only
    configs that were set, so unlisted ones are accepted.
    """
    if owner.resource != ConfigResource.all_brokers():
        known = (await at.admin.describe_configs([owner.resource]))[owner.resource]
        for name in changes:
            if name not in known:
                raise _not_found(name)
    if changes:
        await at.admin.alter_configs({owner.resource: changes}, is_validated_only=is_validated_only)


async def _named(at: ClusterCall) -> tuple[Owner, ConfigEntry]:
    owner, name = await owner_of(at), at.value("name")
    entry = (await at.admin.describe_configs([owner.resource]))[owner.resource].get(name)
    if entry is None:
        raise _not_found(name)
    return owner, entry


def _not_found(name: str) -> RestError:
    return RestError(404, f"Config {name[:100]} cannot be found.")
