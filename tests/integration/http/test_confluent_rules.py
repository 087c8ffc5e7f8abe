"""Rules of a data contract, as confluent-kafka runs them after our registry returned them.

The rules' own languages are packages that only few programs install. Here their types are of the
test: a rule runs if every field of it came back.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.integration import confluent
from tests.integration.http.confluent_faces import (
    Face,
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SerializationError,
    ServerConfig,
    module,
    value_context,
)

RuleRegistry: Any = module("schema_registry.rule_registry").RuleRegistry
RuleExecutor: Any = module("schema_registry.serde").RuleExecutor
FieldRuleExecutor: Any = module("schema_registry.serde").FieldRuleExecutor
DlqAction: Any = module("schema_registry.rules.dlq.dlq_action").DlqAction
WRITES = {"auto.register.schemas": False, "use.latest.version": True}


class FieldIs(RuleExecutor):  # type: ignore[misc]
    """A condition: the field that the expression names has the value of the parameter ``value``."""

    def type(self) -> str:
        return "FIELD_IS"

    def transform(self, ctx: Any, message: Any) -> bool:
        return bool(message[ctx.rule.expr] == ctx.get_parameter("value"))


class Rename(RuleExecutor):  # type: ignore[misc]
    """A transformation: a field gets another name. The expression is ``old->new``."""

    def type(self) -> str:
        return "RENAME"

    def transform(self, ctx: Any, message: Any) -> dict[str, Any]:
        old, _, new = ctx.rule.expr.partition("->")
        return {new if name == old else name: value for name, value in message.items()}


class Mirror(FieldRuleExecutor):  # type: ignore[misc]
    """A transformation of tagged fields: their texts are turned round, and back when they are read."""

    def type(self) -> str:
        return "MIRROR"

    def new_transform(self, _ctx: Any) -> Callable[..., Any]:
        return lambda _rule, field, value: (
            value[::-1] if isinstance(value, str) and field.name else value
        )


@pytest.fixture(params=["threads", "asyncio"])
def client(request: pytest.FixtureRequest, registry: RegistryProcess) -> Iterator[Face]:
    """A client of the shared registry, with its caches empty."""
    with Face(registry.url, is_async=request.param == "asyncio") as made:
        yield made


@pytest.fixture
def rules() -> Any:
    """The types of rules that serializers of a test know."""
    known = RuleRegistry()
    for executor in (FieldIs(), Rename(), Mirror()):
        known.register_executor(executor)
    return known


def rule(name: str, kind: str, mode: str, type_: str, expr: str = "", **more: Any) -> Any:
    """Return a rule."""
    params = RuleParams(more.get("params", {}))
    return Rule(
        name,
        "",
        RuleKind(kind),
        RuleMode(mode),
        type_,
        more.get("tags"),
        params,
        expr,
        None,
        more.get("on_failure"),
        more.get("disabled", False),
    )


def schema(*names: str, rule_set: Any = None, metadata: Any = None) -> Any:
    """Return an Avro record of texts."""
    fields = [{"name": name, "type": "string"} for name in names]
    return Schema(
        json.dumps({"type": "record", "name": "Contract", "fields": fields}),
        "AVRO",
        [],
        metadata,
        rule_set,
    )


def test_a_condition_refuses_a_record(client: Face, topic: str, rules: Any) -> None:
    """Unless the rule is disabled, or another one of the same name overrides it."""
    condition = rule("ann_only", "CONDITION", "WRITE", "FIELD_IS", "owner", params={"value": "ann"})
    client.register_schema(f"{topic}-value", schema("owner", rule_set=RuleSet(None, [condition])))
    serialize = client.serializer("Avro", client.client, None, conf=WRITES, rule_registry=rules)
    deserialize = client.deserializer("Avro", client.client, rule_registry=rules)
    data = serialize({"owner": "ann"}, value_context(topic))
    assert deserialize(data, value_context(topic)) == {"owner": "ann"}
    with pytest.raises(SerializationError) as refused:
        serialize({"owner": "eve"}, value_context(topic))
    assert str(refused.value.__cause__) == "Rule expr failed: owner"
    off = rule("ann_only", "CONDITION", "WRITE", "FIELD_IS", "owner", disabled=True)
    client.set_config(f"{topic}-value", ServerConfig(override_rule_set=RuleSet(None, [off])))
    client.register_schema(
        f"{topic}-value",
        schema("owner", metadata=Metadata(None, MetadataProperties({"major": "2"}), None)),
    )
    client.clear_caches()
    assert serialize({"owner": "eve"}, value_context(topic))


def test_tagged_fields_are_transformed(client: Face, topic: str, rules: Any) -> None:
    """Tags of the metadata name fields by their path. Reading undoes what writing did."""
    mirror = rule("mirror", "TRANSFORM", "WRITEREAD", "MIRROR", tags=["PII"])
    metadata = Metadata(MetadataTags({"Contract.name": ["PII"]}), None, None)
    client.register_schema(
        f"{topic}-value",
        schema("owner", "name", rule_set=RuleSet(None, [mirror]), metadata=metadata),
    )
    serialize = client.serializer("Avro", client.client, None, conf=WRITES, rule_registry=rules)
    data = serialize({"owner": "ann", "name": "abc"}, value_context(topic))
    assert b"cba" in data
    assert b"ann" in data
    deserialize = client.deserializer("Avro", client.client, rule_registry=rules)
    assert deserialize(data, value_context(topic)) == {"owner": "ann", "name": "abc"}


def test_records_migrate_between_major_versions(client: Face, topic: str, rules: Any) -> None:
    """A group of versions is compatible within itself alone. Its rules lead up and down."""
    subject = f"{topic}-value"
    client.set_config(subject, ServerConfig(compatibility_group="major"))
    one, two = (Metadata(None, MetadataProperties({"major": major}), None) for major in "12")
    lead = RuleSet(
        [
            rule("up", "TRANSFORM", "UPGRADE", "RENAME", "owner->owned_by"),
            rule("down", "TRANSFORM", "DOWNGRADE", "RENAME", "owned_by->owner"),
        ],
        None,
    )
    client.register_schema(subject, schema("owner", metadata=one))
    client.register_schema(subject, schema("owned_by", metadata=two, rule_set=lead))
    values = {"1": {"owner": "ann"}, "2": {"owned_by": "ann"}}
    for written, read in (("1", "2"), ("2", "1"), ("1", "1")):
        client.clear_caches()
        writes = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": written}}
        data = client.serializer("Avro", client.client, None, conf=writes, rule_registry=rules)(
            values[written], value_context(topic)
        )
        reads = {"use.latest.with.metadata": {"major": read}}
        deserialize = client.deserializer("Avro", client.client, conf=reads, rule_registry=rules)
        assert deserialize(data, value_context(topic)) == values[read]


def test_a_record_that_breaks_a_rule_goes_to_a_topic_of_dead_letters(
    client: Face, bootstrap: str, topic: str, rules: Any
) -> None:
    """As the bytes that were read. The rule that it broke is skipped when it is read from there."""
    condition = rule(
        "not_hi", "CONDITION", "READ", "FIELD_IS", "text", params={"value": "ho"}, on_failure="DLQ"
    )
    client.register_schema(f"{topic}-value", schema("text", rule_set=RuleSet(None, [condition])))
    rules.register_action(
        DlqAction({"dlq.topic": topic, "dlq.auto.flush": True, **confluent.settings(bootstrap)})
    )
    data = client.serializer("Avro", client.client, None, conf=WRITES, rule_registry=rules)(
        {"text": "hi"}, value_context(topic)
    )
    deserialize = client.deserializer("Avro", client.client, rule_registry=rules)
    with pytest.raises(SerializationError, match="Rule failed: not_hi"):
        deserialize(data, value_context(topic))
    (letter,) = confluent.read_records(bootstrap, topic, 1)
    assert letter.value() == data
    headers = dict(letter.headers())
    assert headers[DlqAction.RULE_NAME] == b"not_hi"
    assert headers[DlqAction.RULE_SUBJECT] == f"{topic}-value".encode()
    assert deserialize(letter.value(), value_context(topic, letter.headers())) == {"text": "hi"}
