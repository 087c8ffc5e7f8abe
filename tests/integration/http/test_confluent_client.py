"""confluent-kafka's own client of a registry, in both of its faces, unchanged.

The tests ask for everything that Confluent's tests of this client ask for, and for the rest of its
methods. They match codes and texts as those tests do.
"""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.confluent_faces import (
    ConfigCompatibilityLevel,
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
    SchemaReference,
    SchemaRegistryError,
    ServerConfig,
)


@pytest.fixture(params=["threads", "asyncio"])
def client(request: pytest.FixtureRequest, registry: RegistryProcess) -> Iterator[Face]:
    """A client of the shared registry, with its caches empty."""
    with Face(registry.url, is_async=request.param == "asyncio") as made:
        yield made


@pytest.fixture
def global_level(client: Face) -> Iterator[None]:
    """Set the level of all subjects back after the test."""
    yield
    client.set_compatibility(level="BACKWARD")


def record(name: str, *fields: dict[str, Any]) -> Any:
    """Return a record's schema in Avro."""
    return Schema(
        json.dumps({"type": "record", "name": name, "fields": list(fields)}), schema_type="AVRO"
    )


NAME = {"name": "name", "type": "string"}
AGE = {"name": "age", "type": "int"}
AGE_OR_NONE = {"name": "age", "type": ["null", "int"], "default": None}
PERSON = record("Person", NAME)
INVALID = Schema(
    '{"type": "record", "name": "Person", "fields": [{"name": "a", "type": "Missing"}]}', "AVRO"
)
PRIMITIVES = [
    Schema(json.dumps({"type": name}), "AVRO") for name in ("string", "boolean", "float", "double")
]


def refusal(error: pytest.ExceptionInfo[BaseException]) -> tuple[int, int]:
    """Return the status and the code of a refusal."""
    found: Any = error.value
    return found.http_status_code, found.error_code


def test_a_registered_schema_is_looked_up(client: Face, subject: str) -> None:
    """The second question gets the id of the first, and the whole schema."""
    schema_id = client.register_schema(subject, PERSON)
    found = client.lookup_schema(subject, PERSON)
    assert (found.schema_id, found.subject, found.version) == (schema_id, subject, 1)
    assert json.loads(found.schema.schema_str) == json.loads(PERSON.schema_str)
    again = client.register_schema_full_response(f"second-{subject}", PERSON)
    assert (again.schema_id, again.guid, again.version) == (schema_id, found.guid, 1)


def test_a_schema_is_normalized_when_the_client_asks(client: Face, subject: str) -> None:
    """Two texts of one meaning are one version then."""
    long = Schema('{"name": "N", "namespace": "x.y", "fields": [], "type": "record"}', "AVRO")
    short = Schema('{"type": "record", "fields": [], "name": "x.y.N"}', "AVRO")
    schema_id = client.register_schema(subject, long, normalize_schemas=True)
    assert client.lookup_schema(subject, short, normalize_schemas=True).schema_id == schema_id
    assert client.register_schema(subject, short, normalize_schemas=True) == schema_id
    assert client.get_versions(subject) == [1]


def test_an_incompatible_schema_is_refused(client: Face, subject: str) -> None:
    """A new field without a default cannot be read from old records."""
    client.register_schema(subject, PERSON)
    with pytest.raises(
        SchemaRegistryError, match="Schema being registered is incompatible with an earlier schema"
    ) as refused:
        client.register_schema(subject, record("Person", NAME, AGE))
    assert refusal(refused) == (409, 409)


def test_an_invalid_schema_is_refused(client: Face, subject: str) -> None:
    """Registering and looking up say the same."""
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, INVALID)
    assert refusal(refused) == (422, 42201)
    client.register_schema(subject, PERSON)
    with pytest.raises(SchemaRegistryError, match="Invalid schema") as refused:
        client.lookup_schema(subject, INVALID)
    assert refusal(refused) == (422, 42201)


def test_a_schema_is_found_by_id_and_by_guid(client: Face, subject: str) -> None:
    """Both give its text, its subjects and its versions."""
    made = client.register_schema_full_response(subject, record("ById", NAME))
    client.clear_caches()
    for found in (client.get_schema(made.schema_id), client.get_schema_by_guid(made.guid)):
        assert json.loads(found.schema_str) == json.loads(record("ById", NAME).schema_str)
    assert subject in client.get_subjects_by_schema_id(made.schema_id)
    users = client.get_schema_versions(made.schema_id)
    assert (subject, 1) in [(each.subject, each.version) for each in users]
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}


def test_an_unknown_schema_is_not_found(client: Face) -> None:
    """Neither by id nor by guid."""
    with pytest.raises(SchemaRegistryError, match=r"Schema .*not found.*") as refused:
        client.get_schema(999_999)
    assert refusal(refused) == (404, 40403)
    with pytest.raises(SchemaRegistryError, match=r"Schema .*not found.*") as refused:
        client.get_schema_by_guid("00000000-0000-0000-0000-000000000000")
    assert refusal(refused) == (404, 40403)


def test_an_unknown_subject_is_not_found(client: Face) -> None:
    """Lookups and deletions say so."""
    questions: tuple[Callable[[], Any], ...] = (
        lambda: client.lookup_schema("no-such-subject", PERSON),
        lambda: client.delete_subject("no-such-subject"),
        lambda: client.get_versions("no-such-subject"),
        lambda: client.get_latest_version("no-such-subject"),
    )
    for question in questions:
        with pytest.raises(SchemaRegistryError, match=r"Subject .*not found.*") as refused:
            question()
        assert refusal(refused) == (404, 40401)


def test_subjects_are_listed(client: Face, subject: str) -> None:
    """By prefix, in pages, and deleted ones when asked for."""
    names = [f"{subject}-{number}" for number in range(4)]
    for name, schema in zip(names, PRIMITIVES, strict=True):
        client.register_schema(name, schema)
    assert set(names) <= set(client.get_subjects())
    client.delete_subject(names[0])
    prefix = f"{subject}-"
    assert client.get_subjects(subject_prefix=prefix) == names[1:]
    assert client.get_subjects(subject_prefix=prefix, deleted=True) == names
    assert client.get_subjects(subject_prefix=prefix, offset=1, limit=1) == names[2:3]


@pytest.mark.usefixtures("global_level")
def test_versions_of_a_subject_are_listed(client: Face, subject: str) -> None:
    """Without a level, a subject takes any schema."""
    client.set_compatibility(level="NONE")
    for schema in PRIMITIVES:
        client.register_schema(subject, schema)
    assert client.get_versions(subject) == [1, 2, 3, 4]
    assert client.get_versions(subject, offset=1, limit=2) == [2, 3]
    for version, schema in enumerate(PRIMITIVES, start=1):
        found = client.lookup_schema(subject, schema)
        assert (found.subject, found.version) == (subject, version)
    client.delete_version(subject, 2)
    assert client.get_versions(subject) == [1, 3, 4]
    assert client.get_versions(subject, deleted=True) == [1, 2, 3, 4]


def test_one_version_is_found_by_its_number(client: Face, subject: str) -> None:
    """Other numbers are not found, and other texts are no versions."""
    client.register_schema(subject, PERSON)
    registered = client.lookup_schema(subject, PERSON)
    for found in (
        client.get_version(subject, 1),
        client.get_latest_version(subject),
        client.get_version(subject, "latest"),
    ):
        assert (found.schema_id, found.version) == (registered.schema_id, 1)
        assert json.loads(found.schema.schema_str) == json.loads(registered.schema.schema_str)
    with pytest.raises(SchemaRegistryError, match=r"Version .*not found") as refused:
        client.get_version(subject, 3)
    assert refusal(refused) == (404, 40402)
    with pytest.raises(
        SchemaRegistryError, match=r"The specified version .*is not a valid version id.*"
    ) as refused:
        client.get_version(subject, "a")
    assert refusal(refused) == (422, 42202)


def test_versions_and_subjects_are_deleted_softly_and_then_for_good(
    client: Face, subject: str
) -> None:
    """The client's caches follow."""
    client.register_schema(subject, PERSON)
    assert client.lookup_schema(subject, PERSON).version == 1
    assert client.delete_version(subject, 1) == 1
    assert subject not in client.get_subjects()
    assert client.get_version(subject, 1, deleted=True).version == 1
    assert client.delete_version(subject, 1, permanent=True) == 1
    assert subject not in client.get_subjects(deleted=True)
    client.clear_caches()
    client.register_schema(subject, PERSON)
    assert client.delete_subject(subject) == [1]
    assert client.lookup_schema(subject, PERSON, deleted=True).version == 1
    assert client.delete_subject(subject, permanent=True) == [1]
    assert subject not in client.get_subjects(deleted=True)


@pytest.mark.usefixtures("global_level")
def test_levels_are_set_and_read(client: Face, subject: str) -> None:
    """For one subject, and for all."""
    client.register_schema(subject, PERSON)
    client.set_compatibility(subject_name=subject, level="FULL_TRANSITIVE")
    assert client.get_compatibility(subject_name=subject) == "FULL_TRANSITIVE"
    for level in ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"):
        client.set_compatibility(level=level)
        assert client.get_compatibility() == level
    with pytest.raises(SchemaRegistryError, match="Invalid compatibility level") as refused:
        client.set_compatibility(level="INVALID")
    assert refusal(refused) == (422, 42203)


def test_a_schema_is_compared_without_being_registered(client: Face, subject: str) -> None:
    """With one version, or with all that the level names."""
    client.register_schema(subject, PERSON)
    client.set_compatibility(subject_name=subject, level="FULL_TRANSITIVE")
    assert client.test_compatibility(subject, record("Person", NAME, AGE_OR_NONE))
    assert not client.test_compatibility(subject, record("Person", NAME, AGE), version=1)
    assert client.test_compatibility_all_versions(subject, record("Person", NAME, AGE_OR_NONE))
    assert not client.test_compatibility_all_versions(subject, record("Person", NAME, AGE))
    assert client.get_versions(subject) == [1]


CHECK = Rule(
    "check_name",
    "names are not empty",
    RuleKind.CONDITION,
    RuleMode.WRITE,
    "CEL",
    ["PII"],
    RuleParams({"who": "ann"}),
    "size(message.name) > 0",
    None,
    "DLQ",
    False,
)
RENAME = Rule(
    "rename",
    "",
    RuleKind.TRANSFORM,
    RuleMode.UPGRADE,
    "JSONATA",
    None,
    None,
    "$",
    "NONE",
    "ERROR,NONE",
    True,
)


def test_settings_are_stored_merged_and_removed(client: Face, subject: str) -> None:
    """Defaults and overrides of metadata and rules come back as they were sent."""
    asked = ServerConfig(
        compatibility=ConfigCompatibilityLevel.FULL,
        compatibility_group="major",
        default_metadata=Metadata(None, MetadataProperties({"owner": "ann"}), None),
        override_rule_set=RuleSet(None, [CHECK]),
    )
    client.set_config(subject, asked)
    found = client.get_config(subject)
    assert found.compatibility_level == ConfigCompatibilityLevel.FULL
    assert found.compatibility_group == "major"
    assert found.default_metadata.properties.properties == {"owner": "ann"}
    assert found.override_rule_set.domain_rules[0].expr == CHECK.expr
    made = client.register_schema_full_response(subject, PERSON)
    assert made.schema.metadata.properties.properties == {"owner": "ann"}
    assert [rule.name for rule in made.schema.rule_set.domain_rules] == ["check_name"]
    assert client.delete_config(subject).compatibility_group == "major"
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_config(subject)
    assert refusal(refused) == (404, 40408)
    assert client.get_config().compatibility_level == ConfigCompatibilityLevel.BACKWARD


def test_modes_are_set_and_read(client: Face, subject: str) -> None:
    """A subject that is read-only takes no schema."""
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_mode(subject)
    assert refusal(refused) == (404, 40409)
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert client.get_mode(subject) == "READONLY"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, PERSON)
    assert refusal(refused) == (422, 42205)
    assert client.update_mode(subject, "IMPORT", force=True) == "IMPORT"
    assert client.delete_mode(subject) == "IMPORT"
    assert client.get_global_mode() == "READWRITE"
    assert client.update_global_mode("READWRITE", force=True) == "READWRITE"


def test_contexts_keep_schemas_apart(client: Face, subject: str) -> None:
    """An id means another schema in each context."""
    context = f".{subject}"
    inside = client.register_schema(f":{context}:orders", record("Inside", NAME))
    assert context in client.get_contexts()
    assert client.get_contexts(offset=0, limit=1) == ["."]
    client.clear_caches()
    found = client.get_schema(inside, subject_name=f":{context}:")
    assert json.loads(found.schema_str)["name"] == "Inside"
    assert client.get_latest_version(f":{context}:orders").schema_id == inside
    assert client.get_subjects(subject_prefix=f":{context}:") == [f":{context}:orders"]


AVRO_PARTS = (
    Schema('{"type": "record", "name": "Part", "fields": []}', "AVRO"),
    "Part",
    '{"type": "record", "name": "Whole", "fields": [{"name": "part", "type": "Part"}]}',
)
JSON_PARTS = (
    Schema('{"$id": "http://example.com/part.json", "type": "object"}', "JSON"),
    "http://example.com/part.json",
    '{"type": "object", "properties": {"part": {"$ref": "http://example.com/part.json"}}}',
)
PROTOBUF_PARTS = (
    Schema('syntax = "proto3"; message Part { int32 a = 1; }', "PROTOBUF"),
    "part.proto",
    'syntax = "proto3"; import "part.proto"; message Whole { Part part = 1; }',
)


@pytest.mark.parametrize(
    "parts", [AVRO_PARTS, JSON_PARTS, PROTOBUF_PARTS], ids=["avro", "json", "protobuf"]
)
def test_schemas_refer_to_others(client: Face, subject: str, parts: tuple[Any, str, str]) -> None:
    """A version that another one refers to stays."""
    part, name, text = parts
    client.register_schema(f"{subject}-part", part)
    reference = SchemaReference(name, f"{subject}-part", 1)
    whole = Schema(text, part.schema_type, [reference])
    schema_id = client.register_schema(subject, whole)
    assert client.lookup_schema(subject, whole).schema_id == schema_id
    client.clear_caches()
    assert client.get_schema(schema_id).references == [reference]
    assert client.get_referenced_by(f"{subject}-part", 1) == [schema_id]
    with pytest.raises(SchemaRegistryError, match="One or more references exist") as refused:
        client.delete_version(f"{subject}-part", 1)
    assert refusal(refused) == (422, 42206)
    missing = Schema(text, part.schema_type, [SchemaReference(name, f"{subject}-none", 1)])
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, missing)
    assert refusal(refused) == (422, 42201)


def test_the_newest_version_with_some_metadata_is_found(client: Face, subject: str) -> None:
    """Tags, properties and names of sensitive ones are kept."""
    client.set_compatibility(subject_name=subject, level="NONE")
    for major, schema in enumerate(PRIMITIVES[:2], start=1):
        metadata = Metadata(
            MetadataTags({"a.b": ["PII"]}), MetadataProperties({"major": str(major)}), ["major"]
        )
        client.register_schema(subject, Schema(schema.schema_str, "AVRO", metadata=metadata))
    found = client.get_latest_with_metadata(subject, {"major": "1"})
    assert found.version == 1
    assert found.schema.metadata.tags.tags == {"a.b": ["PII"]}
    assert list(found.schema.metadata.sensitive) == ["major"]
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_with_metadata(subject, {"major": "3"})
    assert refusal(refused) == (404, 40403)


def test_rule_sets_are_returned_as_they_were_registered(client: Face, subject: str) -> None:
    """Clients run the rules, so every field of them counts."""
    rules = RuleSet([RENAME], [CHECK])
    schema_id = client.register_schema(subject, Schema(PERSON.schema_str, "AVRO", rule_set=rules))
    client.clear_caches()
    found = client.get_schema(schema_id).rule_set
    for kept, sent in ((found.domain_rules[0], CHECK), (found.migration_rules[0], RENAME)):
        assert (kept.name, kept.kind, kept.mode, kept.type, kept.expr) == (
            sent.name,
            sent.kind,
            sent.mode,
            sent.type,
            sent.expr,
        )
        assert (kept.doc or "", kept.tags or None, kept.params, kept.disabled) == (
            sent.doc,
            sent.tags,
            sent.params,
            sent.disabled,
        )
        assert (kept.on_success, kept.on_failure) == (sent.on_success, sent.on_failure)


def test_a_logical_type_is_kept(client: Face, subject: str) -> None:
    """Dates are numbers with a meaning that the text names."""
    day = record("Day", {"name": "day", "type": {"type": "int", "logicalType": "date"}})
    schema_id = client.register_schema(subject, day)
    assert client.lookup_schema(subject, day).schema_id == schema_id
    client.clear_caches()
    assert (
        json.loads(client.get_schema(schema_id).schema_str)["fields"][0]["type"]["logicalType"]
        == "date"
    )


def test_a_schema_is_given_in_the_form_that_the_client_asks_for(client: Face, subject: str) -> None:
    """Protobuf also comes as a descriptor, which Python's serializers ask for."""
    part, name, text = PROTOBUF_PARTS
    context = f":.{subject}:"
    client.register_schema(f"{context}part", part)
    made = client.register_schema(
        f"{context}whole", Schema(text, "PROTOBUF", [SchemaReference(name, "part", 1)])
    )
    client.clear_caches()
    found = client.get_schema(made, subject_name=f"{context}whole", fmt="serialized")
    assert (
        FileDescriptorProto.FromString(base64.b64decode(found.schema_str)).message_type[0].name
        == "Whole"
    )
    assert [each.subject for each in found.references] == ["part"]


def test_associations_are_not_there(client: Face) -> None:
    """The client then takes the name of the topic, as its serializers show."""
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_associations_by_resource_name("orders", "-", "topic", ["value"])
    assert refusal(refused) == (404, 40410)
