"""Each promise of Confluent's REST API, asked of a running registry: parameters, codes and texts."""

import base64
from typing import Any

import httpx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.api_calls import B_WITH_DEFAULT, A, B, error, record, register

V1_JSON = "application/vnd.schemaregistry.v1+json"
PROTO = 'syntax = "proto3"; import "part.proto"; message Whole { Part part = 1; }'
PROTO_PART = 'syntax = "proto3"; message Part { int32 n = 1; }'


def test_a_registry_says_first_that_it_reads_its_topic(registry: RegistryProcess) -> None:
    """It printed nothing until it served, which takes seconds."""
    first, *others = registry.log.read_text().splitlines()
    assert first == "reading the topic _schemas_shared, before requests are answered"
    assert f"schema registry at {registry.url}" in others


# Transport


@pytest.mark.parametrize(
    "content_type",
    ["", "application/octet-stream", "application/json", V1_JSON, f"{V1_JSON}; charset=utf-8"],
)
def test_a_body_is_json_under_each_of_its_types(api: httpx.Client, content_type: str) -> None:
    """A body without a type is one, too."""
    headers = {"content-type": content_type} if content_type else {}
    response = api.post(
        "/subjects/of-all-types/versions", content=b'{"schema":"\\"int\\""}', headers=headers
    )
    assert response.status_code == 200, response.text


def test_an_error_has_the_type_that_the_client_likes(api: httpx.Client) -> None:
    """Also one that no endpoint answers has the registry's own form."""
    response = api.get("/subjects/none/versions", headers={"accept": "application/json"})
    assert (response.headers["content-type"], error(response)) == ("application/json", (404, 40401))
    for response in (api.get("/no/such/path"), api.put("/subjects"), api.patch("/config")):
        assert set(response.json()) == {"error_code", "message"}
        assert response.headers["content-type"] == V1_JSON


def head_of(response: httpx.Response) -> dict[str, str]:
    """Return the headers of a response, which tell its length unless it is sent in pieces."""
    return {name: value for name, value in response.headers.items() if name != "date"}


def test_head_tells_of_each_thing_that_can_be_read(api: httpx.Client, subject: str) -> None:
    """It has the headers of the response, and no body."""
    made = register(api, subject, record(A))
    api.put(f"/config/{subject}", json={"compatibility": "FULL"})
    paths = [
        "/",
        "/subjects",
        f"/subjects/{subject}/versions",
        f"/subjects/{subject}/versions/1",
        f"/subjects/{subject}/versions/latest/schema",
        f"/subjects/{subject}/versions/1/referencedby",
        f"/subjects/{subject}/metadata",
        "/schemas?limit=1",
        "/schemas/types",
        f"/schemas/ids/{made['id']}",
        f"/schemas/ids/{made['id']}/schema",
        f"/schemas/ids/{made['id']}/subjects",
        f"/schemas/ids/{made['id']}/versions",
        f"/schemas/guids/{made['guid']}",
        f"/schemas/guids/{made['guid']}/ids",
        "/config",
        f"/config/{subject}",
        "/mode",
        "/contexts",
        "/v1/metadata/id",
        "/v1/metadata/version",
        "/v1/metadata/deployment",
    ]
    for path in paths:
        head, whole = api.head(path), api.get(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head_of(head) == head_of(whole), path


# Error codes and their texts


RefusedCall = tuple[str, str, dict[str, Any] | None, int, str]


def refused_calls(subject: str) -> list[RefusedCall]:
    """Return calls that are refused, each with its code and the beginning of its text."""
    return [*absent_things(subject), *wrong_states(subject), *wrong_values(subject)]


def absent_things(subject: str) -> list[RefusedCall]:
    versions = f"/subjects/{subject}/versions"
    gone = f"/subjects/{subject}-gone"
    schema = {"schema": record(A)}
    return [
        (
            "GET",
            f"/subjects/{subject}-none/versions",
            None,
            40401,
            f"Subject '{subject}-none' not found.",
        ),
        (
            "DELETE",
            f"/subjects/{subject}-none",
            None,
            40401,
            f"Subject '{subject}-none' not found.",
        ),
        ("GET", f"{versions}/9", None, 40402, "Version 9 not found."),
        ("DELETE", f"{versions}/9", None, 40402, "Version 9 not found."),
        ("POST", f"/compatibility{versions}/9", schema, 40402, "Version 9 not found."),
        ("GET", "/schemas/ids/999999", None, 40403, "Schema 999999 not found"),
        ("GET", "/schemas/ids/999999/subjects", None, 40403, "Schema 999999 not found"),
        ("GET", "/schemas/ids/999999/versions", None, 40403, "Schema 999999 not found"),
        ("GET", "/schemas/guids/none", None, 40403, "Schema none not found"),
        ("POST", f"/subjects/{subject}", {"schema": record(B)}, 40403, "Schema not found"),
        ("DELETE", gone, None, 40404, f"Subject '{subject}-gone' was soft deleted"),
        (
            "DELETE",
            f"/subjects/{subject}?permanent=true",
            None,
            40405,
            f"Subject '{subject}' was not deleted first",
        ),
        (
            "DELETE",
            f"{gone}/versions/1",
            None,
            40406,
            f"Subject '{subject}-gone' Version 1 was soft deleted",
        ),
        (
            "DELETE",
            f"{versions}/1?permanent=true",
            None,
            40407,
            f"Subject '{subject}' Version 1 was not deleted first",
        ),
    ]


def wrong_states(subject: str) -> list[RefusedCall]:
    versions = f"/subjects/{subject}/versions"
    schema = {"schema": record(A)}
    invalid = {"schema": '{"type":"none"}'}
    return [
        (
            "GET",
            f"/config/{subject}",
            None,
            40408,
            f"Subject '{subject}' does not have subject-level compatibility",
        ),
        (
            "GET",
            f"/mode/{subject}",
            None,
            40409,
            f"Subject '{subject}' does not have subject-level mode",
        ),
        (
            "GET",
            "/associations/resources/-/orders",
            None,
            40410,
            "Association for 'orders' not found.",
        ),
        ("DELETE", f"/config/{subject}", None, 40401, f"Subject '{subject}' not found."),
        ("DELETE", f"/mode/{subject}", None, 40401, f"Subject '{subject}' not found."),
        (
            "POST",
            versions,
            {"schema": record(A, B)},
            409,
            "Schema being registered is incompatible with an earlier schema for subject",
        ),
        ("POST", versions, {**schema, "shema": 1}, 422, "Unrecognized field: shema"),
        ("POST", versions, invalid, 42201, "Invalid schema of type AVRO, details: "),
        ("POST", f"/subjects/{subject}", invalid, 42201, "Invalid schema of type AVRO, details: "),
        (
            "GET",
            f"{versions}/0",
            None,
            42202,
            "The specified version '0' is not a valid version id.",
        ),
        (
            "GET",
            f"{versions}/2147483648",
            None,
            42202,
            "The specified version '2147483648' is not a valid version id.",
        ),
        (
            "DELETE",
            f"{versions}/x",
            None,
            42202,
            "The specified version 'x' is not a valid version id.",
        ),
    ]


def wrong_values(subject: str) -> list[RefusedCall]:
    one = f"/subjects/{subject}-one/versions"
    part = f"/subjects/{subject}-part"
    rule = {"domainRules": [{"name": "a b", "type": "CEL"}]}
    schema = {"schema": record(A)}
    return [
        (
            "PUT",
            f"/config/{subject}",
            {"compatibility": "X"},
            42203,
            "Invalid compatibility level.",
        ),
        ("PUT", f"/mode/{subject}", {"mode": "X"}, 42204, "Invalid mode."),
        (
            "PUT",
            f"/mode/{subject}",
            {"mode": "IMPORT"},
            42205,
            "Cannot import since found existing subjects",
        ),
        (
            "PUT",
            f"/mode/{subject}",
            {"mode": "FORWARD"},
            42205,
            "Forward mode only set on global level",
        ),
        (
            "POST",
            one,
            {**schema, "id": 5},
            42205,
            f"Subject {subject}-one in context . is not in import mode",
        ),
        ("DELETE", f"{part}/versions/1", None, 42206, "One or more references exist to the schema"),
        ("DELETE", part, None, 42206, "One or more references exist to the schema"),
        (
            "POST",
            "/subjects/a%0Ab/versions",
            schema,
            42208,
            "The specified subject 'a\nb' is not a valid.",
        ),
        ("POST", one, {**schema, "ruleSet": rule}, 42210, "Illegal character in rule name: a b"),
        (
            "DELETE",
            f"/contexts/.{subject}",
            None,
            42211,
            f"The specified context '.{subject}' is not empty.",
        ),
    ]


def test_refusals_have_codes_and_texts_that_clients_match(api: httpx.Client, subject: str) -> None:
    """The status is the code, or its first three digits."""
    register(api, subject, record(A))
    register(api, f"{subject}-gone", record(A))
    api.delete(f"/subjects/{subject}-gone")
    register(api, f":.{subject}:inside", record(A))
    register(api, f"{subject}-part", record(A, name="Part"))
    reference = {"name": "Part", "subject": f"{subject}-part", "version": 1}
    register(api, f"{subject}-whole", record({"name": "p", "type": "Part"}), references=[reference])
    for method, path, body, code, text in refused_calls(subject):
        refused = api.request(method, path, json=body)
        expected = (code if code < 1000 else code // 100, code)
        assert error(refused) == expected, f"{method} {path}: {refused.text}"
        assert refused.json()["message"].startswith(text), refused.text


# Registering


def test_null_is_nothing_in_a_body(api: httpx.Client, subject: str) -> None:
    """Clients for .NET, Go and Java send fields without a value."""
    nothing = dict.fromkeys(
        (
            "schemaType",
            "references",
            "metadata",
            "ruleSet",
            "id",
            "version",
            "schemaTagsToAdd",
            "schemaTagsToRemove",
        )
    )
    made = register(api, subject, record(A), **nothing)
    assert made["version"] == 1
    assert (
        api.put(
            f"/config/{subject}",
            json={"compatibility": "FULL", "alias": None, "defaultMetadata": None},
        ).status_code
        == 200
    )
    assert api.get(f"/config/{subject}").json() == {"compatibilityLevel": "FULL"}


def test_an_empty_schema_takes_the_text_before_it(api: httpx.Client, subject: str) -> None:
    """So that metadata can be changed without it. A lookup of an empty schema finds nothing."""
    register(api, subject, record(A))
    made = register(api, subject, "", metadata={"properties": {"owner": "ann"}})
    assert (made["version"], made["schema"]) == (2, record(A))
    assert error(api.post(f"/subjects/{subject}", json={"schema": ""})) == (404, 40403)
    empty = {"schema": "", "metadata": {"properties": {"owner": "ann"}}}
    assert error(api.post(f"/subjects/{subject}-none/versions", json=empty)) == (422, 42201)


def test_a_version_is_one_more_than_the_highest_that_is_left(
    api: httpx.Client, subject: str
) -> None:
    """Soft-deleted ones count. One with the same schema goes for good when it comes back."""
    api.put(f"/config/{subject}", json={"compatibility": "NONE"})
    for field in (A, B, B_WITH_DEFAULT):
        register(api, subject, record(field))
    api.delete(f"/subjects/{subject}/versions/3")
    assert register(api, subject, record(A, B))["version"] == 4
    assert register(api, subject, record(B_WITH_DEFAULT))["version"] == 5
    assert api.get(f"/subjects/{subject}/versions?deleted=true").json() == [1, 2, 4, 5]


def test_force_skips_the_comparison(api: httpx.Client, subject: str) -> None:
    """Nothing else is skipped."""
    register(api, subject, record(A))
    path = f"/subjects/{subject}/versions"
    assert error(api.post(path, json={"schema": record(B)})) == (409, 409)
    assert api.post(f"{path}?force=true", json={"schema": record(B)}).json()["version"] == 2
    assert error(api.post(f"{path}?force=true", json={"schema": "{"})) == (422, 42201)


def test_settings_normalize_every_schema(api: httpx.Client, subject: str) -> None:
    """Registered ones, and those that are looked up."""
    api.put(f"/config/{subject}", json={"normalize": True})
    long = '{"name":"N","namespace":"x","type":"record","fields":[]}'
    short = '{"type":"record","name":"x.N","fields":[]}'
    made = register(api, subject, long)
    assert register(api, subject, short)["id"] == made["id"]
    assert api.post(f"/subjects/{subject}", json={"schema": short}).json()["id"] == made["id"]


def test_rules_of_settings_come_over_those_of_a_schema(api: httpx.Client, subject: str) -> None:
    """Defaults lie below them. The text of a rule set is kept whole."""
    rule = {"name": "r", "type": "CEL", "kind": "CONDITION", "mode": "WRITE"}
    sets = {"defaultRuleSet": "default", "overrideRuleSet": "override"}
    api.put(
        f"/config/{subject}",
        json={
            name: {"domainRules": [{**rule, "name": text, "expr": text}]}
            for name, text in sets.items()
        },
    )
    own = {
        "domainRules": [{**rule, "expr": "own"}, {**rule, "name": "override", "expr": "own"}],
        "enableAt": "CLIENT",
    }
    made = register(api, subject, record(A), ruleSet=own)
    assert [(each["name"], each["expr"]) for each in made["ruleSet"]["domainRules"]] == [
        ("default", "default"),
        ("r", "own"),
        ("override", "override"),
    ]
    assert made["ruleSet"]["enableAt"] == "CLIENT"
    encoding = {
        "encodingRules": [
            {
                "name": "e",
                "type": "ENCRYPT_PAYLOAD",
                "kind": "TRANSFORM",
                "mode": "WRITEREAD",
                "tags": ["B", "A"],
            }
        ]
    }
    again = register(api, subject, record(A), ruleSet=encoding)
    assert again["ruleSet"]["encodingRules"][0]["tags"] == ["A", "B"]


def test_a_group_is_compatible_within_itself_alone(api: httpx.Client, subject: str) -> None:
    """A property of the metadata names it."""
    api.put(
        f"/config/{subject}",
        json={"compatibility": "FULL_TRANSITIVE", "compatibilityGroup": "major"},
    )
    one, two = ({"properties": {"major": major}} for major in "12")
    register(api, subject, record(A), metadata=one)
    register(api, subject, record(B), metadata=two)
    refused = api.post(
        f"/subjects/{subject}/versions", json={"schema": record(B, A), "metadata": two}
    )
    assert error(refused) == (409, 409)
    assert "{oldSchemaVersion: 2}" in refused.json()["message"]
    check = f"/compatibility/subjects/{subject}/versions"
    assert api.post(
        check, json={"schema": record(B, A), "metadata": {"properties": {"major": "3"}}}
    ).json() == {"is_compatible": True}


# Reading


def test_references_and_texts_come_in_the_form_that_is_asked_for(
    api: httpx.Client, subject: str
) -> None:
    """By version, by id and by guid."""
    context = f":.{subject}:"
    register(api, f"{context}part", PROTO_PART, schemaType="PROTOBUF")
    reference = {"name": "part.proto", "subject": "part", "version": -1}
    # A guid is of the text, and other tests register ``PROTO`` in other contexts.
    text = PROTO.replace("Part part", "Part of_this_test")
    made = register(api, f"{context}whole", text, schemaType="PROTOBUF", references=[reference])
    paths = [
        f"/subjects/{context}whole/versions/1?x=1",
        f"/schemas/ids/{made['id']}?subject={context}whole",
        f"/schemas/guids/{made['guid']}?x=1",
    ]
    for path in paths:
        plain = api.get(path).json()
        assert plain["references"] == [{"name": "part.proto", "subject": "part", "version": 1}], (
            path
        )
        qualified = api.get(f"{path}&referenceFormat=qualified").json()
        assert qualified["references"][0]["subject"] == f"{context}part", path
        serialized = api.get(f"{path}&format=serialized").json()["schema"]
        assert (
            FileDescriptorProto.FromString(base64.b64decode(serialized)).message_type[0].name
            == "Whole"
        ), path
        assert api.get(f"{path}&format=unknown&findTags=PII").json()["schema"] == plain["schema"], (
            path
        )
    text = api.get(f"/subjects/{context}whole/versions/1/schema?format=serialized").text
    assert base64.b64decode(text) == base64.b64decode(serialized)


def test_lists_are_cut_and_filtered(api: httpx.Client, subject: str) -> None:
    """A limit of zero or less is none."""
    rules = {"domainRules": [{"name": "r", "type": "CEL"}]}
    register(api, f"{subject}-a", record(A))
    register(api, f"{subject}-a", record(A, B_WITH_DEFAULT), ruleSet=rules)
    register(api, f"{subject}-b", record(A))
    api.delete(f"/subjects/{subject}-b")
    schemas = f"/schemas?subjectPrefix={subject}-"
    names = f"/subjects?subjectPrefix={subject}-"
    expected: dict[str, list[Any]] = {
        f"{schemas}": [("a", 1), ("a", 2)],
        f"{schemas}&latestOnly=true": [("a", 2)],
        f"{schemas}&deleted=true": [("a", 1), ("a", 2), ("b", 1)],
        f"{schemas}&ruleType=CEL": [("a", 2)],
        f"{schemas}&offset=1&limit=1": [("a", 2)],
        f"{schemas}&limit=0": [("a", 1), ("a", 2)],
    }
    for path, versions in expected.items():
        found = [
            (each["subject"].removeprefix(f"{subject}-"), each["version"])
            for each in api.get(path).json()
        ]
        assert found == versions, path
    assert api.get(names).json() == [f"{subject}-a"]
    assert api.get(f"{names}&deleted=true").json() == [f"{subject}-a", f"{subject}-b"]
    assert api.get(f"{names}&deleted=true&deletedOnly=true").json() == [f"{subject}-b"]
    assert api.get(f"{names}&deleted=true&offset=1").json() == [f"{subject}-b"]
    assert api.get(f"/subjects/{subject}-a/versions?offset=1&limit=-1").json() == [2]
    assert error(api.get(f"{names}&offset=x")) == (404, 404)


def test_a_deleted_schema_is_found_by_its_id_until_it_is_gone(
    api: httpx.Client, subject: str
) -> None:
    """Consumers may still have its records."""
    made = register(api, subject, record(A, name=f"Of_{subject.replace('-', '_')}"))
    path = f"/schemas/ids/{made['id']}"
    api.delete(f"/subjects/{subject}")
    assert api.get(path).json()["deleted"] is True
    assert (api.get(f"{path}/subjects").json(), api.get(f"{path}/versions").json()) == ([], [])
    assert api.get(f"{path}/subjects?deleted=true").json() == [subject]
    assert api.get(f"{path}/versions?deleted=true").json() == [{"subject": subject, "version": 1}]
    assert api.get(f"/schemas/guids/{made['guid']}/ids").json() == [
        {"context": ".", "id": made["id"]}
    ]
    api.delete(f"/subjects/{subject}?permanent=true")
    for gone in (path, f"{path}/subjects?deleted=true", f"/schemas/guids/{made['guid']}"):
        assert error(api.get(gone)) == (404, 40403), gone


def test_metadata_is_found_by_all_pairs_of_key_and_value(api: httpx.Client, subject: str) -> None:
    """Keys and values come in pairs. The newest version that has them all counts."""
    for number, owner in enumerate(["ann", "eve", "ann"]):
        register(
            api, subject, record(A), metadata={"properties": {"owner": owner, "n": str(number)}}
        )
    path = f"/subjects/{subject}/metadata"
    assert api.get(f"{path}?key=owner&value=ann").json()["version"] == 3
    assert api.get(f"{path}?key=owner&value=ann&key=n&value=0").json()["version"] == 1
    assert error(api.get(f"{path}?key=owner&value=ann&key=n&value=1")) == (404, 40403)
    api.delete(f"/subjects/{subject}/versions/3")
    assert api.get(f"{path}?key=owner&value=ann").json()["version"] == 1
    assert api.get(f"{path}?key=owner&value=ann&deleted=true").json()["version"] == 3


# Compatibility


def test_a_check_says_yes_to_an_unknown_latest_version(api: httpx.Client, subject: str) -> None:
    """An unknown number is an error, and an invalid schema is only a message where these are asked
    for.
    """
    path = f"/compatibility/subjects/{subject}/versions"
    for latest in (f"{path}/latest", f"{path}/-1", path):
        assert api.post(latest, json={"schema": record(A)}).json() == {"is_compatible": True}, (
            latest
        )
    assert error(api.post(f"{path}/1", json={"schema": record(A)})) == (404, 40402)
    assert api.post(f"{path}/latest?verbose=true", json={"schema": record(A)}).json() == {
        "is_compatible": True,
        "messages": [],
    }
    assert error(api.post(f"{path}/latest", json={"schema": "{"})) == (422, 42201)
    verbose = api.post(f"{path}/latest?verbose=true", json={"schema": "{"}).json()
    assert (verbose["is_compatible"], len(verbose["messages"])) == (False, 1)


def test_another_language_is_incompatible(api: httpx.Client, subject: str) -> None:
    """Whatever the two schemas say."""
    register(api, subject, record(A))
    refused = api.post(
        f"/subjects/{subject}/versions", json={"schema": '{"type":"object"}', "schemaType": "JSON"}
    )
    assert "Incompatible because of different schema type" in refused.json()["message"]


# Scopes


def test_settings_of_a_subject_come_over_those_of_its_context_and_of_all(
    api: httpx.Client, subject: str
) -> None:
    """Each field by itself."""
    context, everywhere = f":.{subject}:", ":.__GLOBAL:"
    api.delete("/config")  # another test may have set it
    assert api.get(f"/config/{context}x?defaultToGlobal=true").json() == {
        "compatibilityLevel": "BACKWARD"
    }
    api.put(f"/config/{everywhere}", json={"compatibility": "FULL", "normalize": True})
    try:
        api.put(f"/contexts/.{subject}/config", json={"compatibilityGroup": "major"})
        api.put(f"/config/{context}x", json={"compatibility": "NONE"})
        merged = {"compatibilityLevel": "NONE", "compatibilityGroup": "major", "normalize": True}
        assert api.get(f"/config/{context}x?defaultToGlobal=true").json() == merged
        assert api.get(f"/config/{context}x").json() == {"compatibilityLevel": "NONE"}
        assert api.get(f"/contexts/.{subject}/config").json() == {"compatibilityGroup": "major"}
        assert api.get("/config").json()["compatibilityLevel"] == "FULL"
    finally:
        api.delete(f"/config/{everywhere}")
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_a_scope_that_begins_to_import_is_empty(api: httpx.Client, subject: str) -> None:
    """Soft-deleted versions go for good then. Live ones forbid it, unless it is forced."""
    register(api, subject, record(A, name="Before"))
    assert error(api.put(f"/mode/{subject}", json={"mode": "IMPORT"})) == (422, 42205)
    assert api.put(f"/mode/{subject}?force=true", json={"mode": "IMPORT"}).status_code == 200
    assert api.delete(f"/mode/{subject}").json() == {"mode": "IMPORT"}
    api.delete(f"/subjects/{subject}")
    assert api.put(f"/mode/{subject}", json={"mode": "IMPORT"}).status_code == 200
    assert error(api.get(f"/subjects/{subject}/versions?deleted=true")) == (404, 40401)
    for schema_id, version in ((90_002, 7), (90_001, 3)):
        made = register(api, subject, record(A, name=f"I{version}"), id=schema_id, version=version)
        assert (made["id"], made["version"]) == (schema_id, version)
    assert api.get(f"/subjects/{subject}/versions").json() == [3, 7]
    taken = {"schema": record(A, name="Other"), "id": 90_001}
    assert error(api.post(f"/subjects/{subject}/versions", json=taken)) == (422, 42205)
    assert api.delete(f"/mode/{subject}").json() == {"mode": "IMPORT"}


def test_a_mode_of_all_may_override_those_of_subjects(api: httpx.Client, subject: str) -> None:
    """READONLY_OVERRIDE does. FORWARD takes schemas with ids alone, and READONLY is a default."""
    register(api, subject, record(A))
    other = {"schema": record(A, B_WITH_DEFAULT)}
    assert api.put(f"/mode/{subject}", json={"mode": "READWRITE"}).status_code == 200
    try:
        assert api.put("/mode", json={"mode": "READONLY"}).status_code == 200
        assert error(api.post(f"/subjects/{subject}-other/versions", json=other)) == (422, 42205)
        assert error(api.put(f"/config/{subject}-other", json={"compatibility": "FULL"})) == (
            422,
            42205,
        )
        assert api.post(f"/subjects/{subject}/versions", json=other).status_code == 200
        assert api.put("/mode", json={"mode": "READONLY_OVERRIDE"}).status_code == 200
        assert api.get(f"/mode/{subject}").json() == {"mode": "READONLY_OVERRIDE"}
        assert error(api.post(f"/subjects/{subject}/versions", json={"schema": record()})) == (
            422,
            42205,
        )
        assert error(api.delete(f"/subjects/{subject}")) == (422, 42205)
        assert api.post(f"/subjects/{subject}/versions", json=other).json()["version"] == 2
        assert api.put("/mode", json={"mode": "FORWARD"}).status_code == 200
        assert error(api.post(f"/subjects/{subject}-new/versions", json=other)) == (422, 42205)
        assert (
            register(api, f"{subject}-new", record(A, name="Forwarded"), id=91_001)["id"] == 91_001
        )
    finally:
        api.delete("/mode")
    assert api.get(f"/mode/{subject}").json() == {"mode": "READWRITE"}


def test_modes_are_removed_with_those_below_them(api: httpx.Client, subject: str) -> None:
    """The modes of subjects that have schemas are removed, too."""
    context = f":.{subject}:"
    register(api, f"{context}x", record(A))
    api.put(f"/mode/{context}x", json={"mode": "READONLY"})
    api.put(f"/contexts/.{subject}/mode", json={"mode": "READONLY"})
    assert api.get(f"/mode/{context}y?defaultToGlobal=true").json() == {"mode": "READONLY"}
    assert api.delete(f"/contexts/.{subject}/mode?recursive=true").json() == {"mode": "READONLY"}
    for scope in (context, f"{context}x"):
        assert error(api.get(f"/mode/{scope}")) == (404, 40409), scope


def test_every_path_works_below_a_context(api: httpx.Client, subject: str) -> None:
    """Subjects without a context are in that one, also those that are referred to."""
    below = f"/contexts/.{subject}"
    assert (
        api.post(f"{below}/subjects/part/versions", json={"schema": record(A, name="Part")}).json()[
            "version"
        ]
        == 1
    )
    reference = {"name": "Part", "subject": "part", "version": 1}
    whole = {"schema": record({"name": "p", "type": "Part"}), "references": [reference]}
    made = api.post(f"{below}/subjects/orders/versions", json=whole).json()
    orders = f":.{subject}:orders"
    assert api.post(f"{below}/subjects/orders", json=whole).json()["subject"] == orders
    assert api.get(f"{below}/subjects").json() == [orders, f":.{subject}:part"]
    assert api.get(f"{below}/subjects/part/versions/1/referencedby").json() == [made["id"]]
    assert api.get(f"{below}/schemas/ids/{made['id']}").json()["subject"] == orders
    assert api.get(f"{below}/schemas/ids/{made['id']}/subjects").json() == [orders]
    assert api.get(f"{below}/schemas?latestOnly=true").json()[0]["subject"] == orders
    assert api.post(
        f"{below}/compatibility/subjects/orders/versions/latest", json=whole
    ).json() == {"is_compatible": True}
    assert api.put(f"{below}/config/orders", json={"compatibility": "NONE"}).status_code == 200
    assert api.get(f"/config/{orders}").json() == {"compatibilityLevel": "NONE"}
    assert api.put(f"{below}/mode/orders", json={"mode": "READONLY"}).status_code == 200
    assert api.delete(f"{below}/mode/orders").json() == {"mode": "READONLY"}
    assert api.get(f"/contexts?contextPrefix=.{subject}").json() == [f".{subject}"]
    assert api.get(f"/subjects/orders-of-{subject}/versions/1").status_code == 404


def test_a_name_that_is_missing_is_looked_for_in_every_context(
    api: httpx.Client, subject: str
) -> None:
    """A qualified one is not."""
    inside = f":.{subject}:{subject}"
    made = register(api, inside, record(A, name="Inside"))
    assert api.get(f"/subjects/{subject}/versions/1").json()["subject"] == inside
    assert api.get(f"/subjects/{subject}/versions/latest/schema").text == record(A, name="Inside")
    assert (
        api.post(f"/subjects/{subject}", json={"schema": record(A, name="Inside")}).json()[
            "subject"
        ]
        == inside
    )
    assert api.get(f"/schemas/ids/{made['id']}?subject={subject}").json()["subject"] == inside
    assert error(api.get(f"/subjects/{subject}/versions")) == (404, 40401)
    assert error(api.get(f"/subjects/:.none:{subject}/versions/1")) == (404, 40401)
    assert error(api.get(f"/schemas/ids/{made['id']}?subject=:.{subject}:none")) == (404, 40403)


def test_an_alias_leads_everything_but_settings_to_its_subject(
    api: httpx.Client, subject: str
) -> None:
    """Registering, looking up, comparing, deleting and the subject of an id."""
    made = register(api, subject, record(A, name="Aliased"))
    alias = f"{subject}-alias"
    api.put(f"/config/{alias}", json={"alias": subject})
    assert api.get(f"/subjects/{alias}/versions").json() == [1]
    assert (
        api.post(f"/subjects/{alias}", json={"schema": record(A, name="Aliased")}).json()["subject"]
        == subject
    )
    assert api.get(f"/schemas/ids/{made['id']}?subject={alias}").json()["subject"] == subject
    assert api.post(
        f"/compatibility/subjects/{alias}/versions/1", json={"schema": record(A, B, name="Aliased")}
    ).json() == {"is_compatible": False}
    assert register(api, alias, record(A, B_WITH_DEFAULT, name="Aliased"))["version"] == 2
    assert api.delete(f"/subjects/{alias}/versions/2").json() == 2
    assert api.get(f"/config/{alias}").json() == {"alias": subject}
    assert error(api.get(f"/config/{subject}")) == (404, 40408)
    assert alias not in api.get("/subjects").json()
