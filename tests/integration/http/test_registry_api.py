"""The registry's REST API, as Confluent's clients use it, over a real cluster."""

import json

import httpx
import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.api_calls import B_WITH_DEFAULT, A, B, error, record, register

V1_JSON = "application/vnd.schemaregistry.v1+json"


def test_a_registered_schema_is_found_in_every_way(api: httpx.Client, subject: str) -> None:
    """By subject and version, by id, by guid and by its content."""
    made = register(api, subject, record(A))
    assert made["version"] == 1
    by_version = api.get(f"/subjects/{subject}/versions/1").json()
    assert by_version == api.get(f"/subjects/{subject}/versions/latest").json()
    assert (by_version["id"], by_version["schema"]) == (made["id"], record(A))
    assert api.get(f"/subjects/{subject}/versions/1/schema").text == record(A)
    assert api.get(f"/schemas/ids/{made['id']}").json()["schema"] == record(A)
    assert api.get(f"/schemas/ids/{made['id']}/schema").text == record(A)
    assert api.get(f"/schemas/guids/{made['guid']}").json()["schema"] == record(A)
    assert {"context": ".", "id": made["id"]} in api.get(
        f"/schemas/guids/{made['guid']}/ids"
    ).json()
    assert subject in api.get(f"/schemas/ids/{made['id']}/subjects").json()
    assert {"subject": subject, "version": 1} in api.get(
        f"/schemas/ids/{made['id']}/versions"
    ).json()
    looked_up = api.post(f"/subjects/{subject}", json={"schema": record(A)}).json()
    assert (looked_up["id"], looked_up["version"]) == (made["id"], 1)
    assert subject in api.get("/subjects").json()
    assert api.get(f"/subjects/{subject}/versions").json() == [1]


def test_the_response_to_a_registration_has_the_schema_only_where_it_was_changed(
    api: httpx.Client, subject: str
) -> None:
    """A client that sent a descriptor would take the printed text for it."""
    made = register(api, subject, record(A, name="Plain"))
    assert set(made) == {"id", "version", "guid"}
    api.put(f"/config/{subject}", json={"defaultMetadata": {"properties": {"owner": "ann"}}})
    changed = register(api, subject, record(A, name="Plain"))
    assert changed["metadata"] == {"properties": {"owner": "ann"}}
    assert changed["schema"] == record(A, name="Plain")


def test_one_content_has_one_id_and_is_registered_once(api: httpx.Client, subject: str) -> None:
    """A second registration changes nothing. Another subject gets the same id."""
    text = record(A, name="Shared")
    made = register(api, subject, text)
    assert register(api, subject, text)["id"] == made["id"]
    assert register(api, f"other-{subject}", text)["id"] == made["id"]
    spaced = json.dumps(json.loads(text), indent=2)
    assert register(api, subject, spaced)["id"] == made["id"]
    assert api.get(f"/subjects/{subject}/versions").json() == [1]


def test_an_incompatible_schema_is_refused_with_its_reason(api: httpx.Client, subject: str) -> None:
    """The usual level is BACKWARD: a new schema must read old records."""
    register(api, subject, record(A))
    refused = api.post(f"/subjects/{subject}/versions", json={"schema": record(A, B)})
    assert error(refused) == (409, 409)
    text = refused.json()["message"]
    assert text.startswith(
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in text
    assert "{oldSchemaVersion: 1}" in text
    assert register(api, subject, record(A, B_WITH_DEFAULT))["version"] == 2


def test_compatibility_is_checked_without_registering(api: httpx.Client, subject: str) -> None:
    """Verbose answers list the reasons."""
    path = f"/compatibility/subjects/{subject}/versions"
    assert api.post(f"{path}/latest", json={"schema": record(A)}).json() == {"is_compatible": True}
    assert error(api.post(f"{path}/1", json={"schema": record(A)})) == (404, 40402)
    register(api, subject, record(A))
    assert error(api.post(f"{path}/7", json={"schema": record(A)})) == (404, 40402)
    assert api.post(f"{path}/1", json={"schema": record(A, B)}).json() == {"is_compatible": False}
    verbose = api.post(f"{path}?verbose=true", json={"schema": record(A, B)}).json()
    assert not verbose["is_compatible"]
    assert "missing in the old schema" in verbose["messages"][0]
    invalid = api.post(f"{path}/1", json={"schema": '{"type":"none"}'})
    assert error(invalid) == (422, 42201)
    told = api.post(f"{path}/1?verbose=true", json={"schema": '{"type":"none"}'}).json()
    assert not told["is_compatible"]
    assert api.get(f"/subjects/{subject}/versions").json() == [1]


@pytest.mark.parametrize(
    ("level", "is_added_accepted", "is_removed_accepted"),
    [
        ("BACKWARD", False, True),
        ("FORWARD", True, False),
        ("FULL", False, False),
        ("NONE", True, True),
    ],
)
def test_a_level_decides_what_may_change(
    api: httpx.Client,
    subject: str,
    level: str,
    *,
    is_added_accepted: bool,
    is_removed_accepted: bool,
) -> None:
    """The level of a subject counts, in any case of letters."""
    put = api.put(f"/config/{subject}", json={"compatibility": level.lower()})
    assert put.json() == {"compatibility": level}
    assert api.get(f"/config/{subject}").json() == {"compatibilityLevel": level}
    register(api, subject, record(A))
    path = f"/compatibility/subjects/{subject}/versions/latest"
    added = api.post(path, json={"schema": record(A, B)}).json()
    removed = api.post(path, json={"schema": record()}).json()
    assert (added["is_compatible"], removed["is_compatible"]) == (
        is_added_accepted,
        is_removed_accepted,
    )


def test_deletion_is_soft_first_and_permanent_then(api: httpx.Client, subject: str) -> None:
    """The id of a soft-deleted version is still found."""
    first = register(api, subject, record(A))
    register(api, subject, record(A, B_WITH_DEFAULT))
    assert error(api.delete(f"/subjects/{subject}/versions/1?permanent=true")) == (404, 40407)
    assert api.delete(f"/subjects/{subject}/versions/1").json() == 1
    assert error(api.delete(f"/subjects/{subject}/versions/1")) == (404, 40406)
    assert error(api.get(f"/subjects/{subject}/versions/1")) == (404, 40402)
    assert api.get(f"/subjects/{subject}/versions/1?deleted=true").json()["deleted"] is True
    assert api.get(f"/schemas/ids/{first['id']}").status_code == 200
    assert api.get(f"/subjects/{subject}/versions?deleted=true").json() == [1, 2]
    assert api.get(f"/subjects/{subject}/versions?deletedOnly=true").json() == [1]
    assert api.get(f"/subjects/{subject}/versions?deletedAsNegative=true").json() == [-1, 2]
    assert api.delete(f"/subjects/{subject}").json() == [2]
    assert subject not in api.get("/subjects").json()
    assert subject in api.get("/subjects?deleted=true").json()
    assert error(api.delete(f"/subjects/{subject}")) == (404, 40404)
    assert api.delete(f"/subjects/{subject}?permanent=true").json() == [1, 2]
    assert error(api.delete(f"/subjects/{subject}?permanent=true")) == (404, 40401)


def test_ids_of_removed_schemas_do_not_come_again(
    api: httpx.Client, registry: RegistryProcess, subject: str
) -> None:
    """Neither at once nor after a restart."""
    made = register(api, subject, record(A, name="Gone"))
    api.delete(f"/subjects/{subject}")
    api.delete(f"/subjects/{subject}?permanent=true")
    assert error(api.get(f"/schemas/ids/{made['id']}")) == (404, 40403)
    registry.stop()
    registry.start()
    assert register(api, subject, record(A, name="New"))["id"] > made["id"]


def test_a_version_that_is_referred_to_stays(api: httpx.Client, subject: str) -> None:
    """References are resolved by subject and version, and shown to those who ask."""
    register(api, f"{subject}-part", record(A, name="Part"))
    whole = record({"name": "p", "type": "Part"}, name="Whole")
    reference = {"name": "Part", "subject": f"{subject}-part", "version": 1}
    made = register(api, subject, whole, references=[reference])
    assert api.get(f"/subjects/{subject}/versions/1").json()["references"] == [reference]
    assert api.get(f"/subjects/{subject}-part/versions/1/referencedby").json() == [made["id"]]
    assert error(api.delete(f"/subjects/{subject}-part/versions/1")) == (422, 42206)
    assert error(api.delete(f"/subjects/{subject}-part")) == (422, 42206)
    resolved = json.loads(api.get(f"/schemas/ids/{made['id']}?format=resolved").json()["schema"])
    assert resolved["fields"][0]["type"]["name"] == "Part"
    missing = {"schema": whole, "references": [{"name": "Part", "subject": "none", "version": 1}]}
    refused = api.post(f"/subjects/{subject}/versions", json=missing)
    assert error(refused) == (422, 42201)
    assert 'subject "none" and version 1' in refused.json()["message"]


def test_modes_decide_what_may_be_written(api: httpx.Client, subject: str) -> None:
    """Schemas come with their own ids while a subject imports."""
    assert error(api.get(f"/mode/{subject}")) == (404, 40409)
    assert api.put(f"/mode/{subject}", json={"mode": "readonly"}).json() == {"mode": "READONLY"}
    body = {"schema": record(A, name="Imported")}
    assert error(api.post(f"/subjects/{subject}/versions", json=body)) == (422, 42205)
    assert api.put(f"/mode/{subject}", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    assert error(api.post(f"/subjects/{subject}/versions", json=body)) == (422, 42205)
    made = register(api, subject, body["schema"], id=70_001, version=5)
    assert (made["id"], made["version"]) == (70_001, 5)
    other = {"schema": record(B, name="Other"), "id": 70_001, "version": 6}
    assert error(api.post(f"/subjects/{subject}/versions", json=other)) == (422, 42205)
    assert api.delete(f"/mode/{subject}").json() == {"mode": "IMPORT"}
    assert register(api, subject, record(A, name="Imported"))["id"] == 70_001


def test_contexts_have_schemas_and_ids_of_their_own(api: httpx.Client, subject: str) -> None:
    """A context is named in the subject or in the path."""
    context = f".{subject}"
    made = register(api, f":{context}:orders", record(A, name="InContext"))
    assert context in api.get("/contexts").json()
    assert f":{context}:orders" in api.get("/subjects").json()
    assert api.get(f"/contexts/{context}/subjects").json() == [f":{context}:orders"]
    inside = api.get(f"/contexts/{context}/subjects/orders/versions/1").json()
    assert (inside["subject"], inside["id"]) == (f":{context}:orders", made["id"])
    assert (
        api.get(f"/schemas/ids/{made['id']}?subject=:{context}:").json()["schema"]
        == inside["schema"]
    )
    assert error(api.delete(f"/contexts/{context}")) == (422, 42211)
    for permanent in ("false", "true"):
        api.delete(f"/contexts/{context}/subjects/orders?permanent={permanent}")
    assert api.delete(f"/contexts/{context}").status_code == 204
    assert context not in api.get("/contexts").json()


def test_metadata_and_rules_are_kept_and_merged(api: httpx.Client, subject: str) -> None:
    """Defaults of the settings come below a schema's own metadata, overrides above it."""
    api.put(
        f"/config/{subject}",
        json={
            "compatibility": "NONE",
            "defaultMetadata": {"properties": {"owner": "nobody", "team": "t"}},
            "overrideMetadata": {"properties": {"level": "high"}},
        },
    )
    rule = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    made = register(
        api,
        subject,
        record(A),
        metadata={"properties": {"owner": "ann"}, "tags": None},
        ruleSet={"domainRules": [rule], "migrationRules": None},
    )
    expected = {"properties": {"level": "high", "owner": "ann", "team": "t"}}
    assert made["metadata"] == expected
    shown = api.get(f"/subjects/{subject}/versions/1").json()
    assert shown["metadata"] == expected
    assert shown["ruleSet"] == {"domainRules": [{**rule, "disabled": False}]}
    found = api.get(f"/subjects/{subject}/metadata", params={"key": "owner", "value": "ann"}).json()
    assert found["version"] == 1
    bad = {"schema": record(A), "ruleSet": {"domainRules": [{"name": "", "type": "CEL"}]}}
    assert error(api.post(f"/subjects/{subject}/versions", json=bad)) == (422, 42210)


def test_an_alias_stands_for_its_subject(api: httpx.Client, subject: str) -> None:
    """Reads and writes of the alias go to the subject."""
    made = register(api, subject, record(A))
    api.put(f"/config/{subject}-alias", json={"alias": subject})
    assert api.get(f"/subjects/{subject}-alias/versions/1").json()["id"] == made["id"]


@pytest.mark.parametrize(
    ("body", "expected", "text"),
    [
        (b"", (400, 400), "not JSON"),
        (b"{", (400, 400), "not JSON"),
        (b'{"schema": "\\"int\\"", "schema": "1"}', (400, 400), "comes twice"),
        (b"[]", (422, 422), "object"),
        (b"\xff", (400, 400), "UTF-8"),
        (b'{"shema":"\\"int\\""}', (422, 422), "Unrecognized field: shema"),
        (b'{"schema":3}', (422, 422), "schema has to be a text"),
        (b'{"schema":""}', (422, 42201), "Empty schema"),
        (b"{}", (422, 42201), "Empty schema"),
        (b'{"schema":"\\ud800"}', (422, 422), "surrogate"),
        (b'{"schema":"{}","schemaType":"THRIFT"}', (422, 42201), "Invalid schema type THRIFT"),
        (b'{"schema":"{\\"type\\":\\"x\\"}"}', (422, 42201), "Invalid schema of type AVRO"),
        (b'{"schema":"{","schemaType":"JSON"}', (422, 42201), "line 1, column"),
        (b'{"schema":"message {","schemaType":"PROTOBUF"}', (422, 42201), "line 1, column"),
        (
            b'{"schema":"\\"int\\"","references":[{"name":"a"}]}',
            (422, 422),
            "version has to be a number",
        ),
        (b'{"schema":"\\"int\\"","id":"x"}', (422, 422), "id has to be a number"),
    ],
)
def test_a_bad_body_is_refused_and_never_a_server_error(
    api: httpx.Client, subject: str, body: bytes, expected: tuple[int, int], text: str
) -> None:
    """Clients retry a 500 for a minute, so that a mistake of theirs must not be one."""
    refused = api.post("/subjects/bad-body/versions", content=body)
    assert error(refused) == expected, refused.text
    assert text in refused.json()["message"]
    assert "bad-body" not in api.get("/subjects").json()


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, V1_JSON),
        ("*/*", V1_JSON),
        ("application/json", "application/json"),
        (
            "application/vnd.schemaregistry+json, application/json; q=0.5",
            "application/vnd.schemaregistry+json",
        ),
        ("application/*", V1_JSON),
        ("text/html, *; q=.2, */*; q=.2", V1_JSON),
        ("*", V1_JSON),
        ("*/anything", V1_JSON),
    ],
)
def test_the_content_type_is_the_one_that_the_client_likes(
    api: httpx.Client, accept: str | None, expected: str
) -> None:
    """Without a wish it is the registry's own."""
    headers = {} if accept is None else {"accept": accept}
    request = api.build_request("GET", "/subjects", headers=headers)
    if accept is None:
        del request.headers["accept"]
    response = api.send(request)
    assert response.headers["content-type"] == expected


@pytest.mark.parametrize(
    "accept",
    ["application/vnd.schemaregistry.v2+json", "text/*", "text/html", "application/octet-stream"],
    ids=["version", "text", "page", "bytes"],
)
def test_a_client_that_accepts_other_types_alone_is_refused(
    api: httpx.Client, subject: str, accept: str
) -> None:
    """Nothing is done, and the refusal is JSON."""
    body = {"schema": record(A)}
    headers = {"accept": accept}
    for refused in (
        api.get("/subjects", headers=headers),
        api.post(f"/subjects/{subject}/versions", json=body, headers=headers),
    ):
        assert error(refused) == (406, 406)
        assert refused.json()["message"] == "HTTP 406 Not Acceptable"
        assert refused.headers["content-type"] == V1_JSON
    assert error(api.get(f"/subjects/{subject}/versions")) == (404, 40401)


@pytest.mark.parametrize("charset", ["utf-8", "UTF-16", "utf-16le", "us-ascii"])
def test_a_body_is_read_in_its_charset(api: httpx.Client, subject: str, charset: str) -> None:
    """Java's clients may write in UTF-16. Another charset than Unicode's is refused."""
    body = json.dumps({"schema": record(A)}).encode(charset)
    path = f"/subjects/{subject}/versions"
    made = api.post(path, content=body, headers={"content-type": f"{V1_JSON}; charset={charset}"})
    assert made.status_code == 200, made.text
    assert api.get(f"{path}/1/schema").text == record(A)
    unknown = {"content-type": f"{V1_JSON}; charset=ebcdic"}
    assert error(api.post(path, content=body, headers=unknown)) == (415, 415)
    broken = {"content-type": f"{V1_JSON}; charset=utf-16"}
    assert error(api.post(path, content=b"\xff\xfe{", headers=broken)) == (400, 400)


def test_an_old_java_client_gets_no_field_that_it_does_not_know(
    api: httpx.Client, subject: str
) -> None:
    """It would refuse the whole response."""
    old = {"user-agent": "Java/1.8.0_392"}
    made = api.post(f"/subjects/{subject}/versions", json={"schema": record(A)}, headers=old).json()
    assert list(made) == ["id"]
    shown = api.get(f"/subjects/{subject}/versions/1", headers=old).json()
    assert set(shown) == {"subject", "version", "id", "schema"}
    assert set(api.get(f"/schemas/ids/{made['id']}", headers=old).json()) == {"schema"}


def test_subjects_with_slashes_and_colons_are_names_like_others(api: httpx.Client) -> None:
    """A path has them percent-encoded."""
    name = "a/b:c%d e"
    made = api.post("/subjects/a%2Fb%3Ac%25d%20e/versions", json={"schema": record(A, name="Odd")})
    assert made.status_code == 200
    assert name in api.get("/subjects").json()
    assert api.get("/subjects/a%2Fb%3Ac%25d%20e/versions/1").json()["subject"] == name
    assert error(api.post("/subjects/a%0Ab/versions", json={"schema": record(A)})) == (422, 42208)


def test_lists_come_in_pages(api: httpx.Client, subject: str) -> None:
    """``offset`` and ``limit`` cut all lists."""
    for index in range(3):
        register(api, f"{subject}-{index}", record(A, name=f"Page{index}"))
    query = {"subjectPrefix": f"{subject}-"}
    everything = api.get("/subjects", params=query).json()
    assert everything == [f"{subject}-{index}" for index in range(3)]
    assert api.get("/subjects", params={**query, "offset": 1, "limit": 1}).json() == everything[1:2]
    schemas = api.get("/schemas", params={**query, "limit": 2}).json()
    assert [each["subject"] for each in schemas] == everything[:2]


def test_protobuf_as_text_and_as_descriptor_is_one_schema(api: httpx.Client, subject: str) -> None:
    """Python, .NET and Go clients register the base64 of a descriptor."""
    text = 'syntax = "proto3";\nmessage M {\n  map<string, int32> counts = 1;\n}\n'
    made = register(api, subject, text, schemaType="PROTOBUF")
    serialized = api.get(f"/schemas/ids/{made['id']}?format=serialized").json()["schema"]
    assert register(api, subject, serialized, schemaType="PROTOBUF")["id"] == made["id"]
    assert api.get(f"/subjects/{subject}/versions").json() == [1]


def test_probes_of_clients_and_consoles_are_answered(api: httpx.Client) -> None:
    """Redpanda Console and Confluent's clients ask for these."""
    assert api.get("/").json() == {}
    assert api.head("/subjects").status_code == 200
    clusters = api.get("/v1/metadata/id").json()["scope"]["clusters"]
    assert set(clusters) == {"kafka-cluster", "schema-registry-cluster"}
    assert set(api.get("/v1/metadata/version").json()) == {"version", "commitId"}
    assert error(api.get("/associations/resources/-/orders")) == (404, 40410)
    assert set(api.get("/schemas/types").json()) == {"AVRO", "JSON", "PROTOBUF"}
    assert error(api.get("/no/such/path"))[0] == 404
    assert api.put("/subjects").status_code == 405


def test_a_schema_is_looked_up_as_it_was_registered(api: httpx.Client, subject: str) -> None:
    """Defaults and overrides of the settings are added to its metadata in a lookup, too."""
    api.put(f"/config/{subject}", json={"defaultMetadata": {"properties": {"team": "t"}}})
    sent = {"schema": record(A), "metadata": {"properties": {"owner": "ann"}}}
    made = api.post(f"/subjects/{subject}/versions", json=sent).json()
    found = api.post(f"/subjects/{subject}", json=sent).json()
    assert (found["id"], found["metadata"]) == (made["id"], made["metadata"])
    assert found["metadata"] == {"properties": {"owner": "ann", "team": "t"}}


def test_a_lookup_that_misses_is_no_invalid_schema(api: httpx.Client, subject: str) -> None:
    """References that lead to nothing in another context do not count."""
    register(api, f":.{subject}:elsewhere", record(A))
    register(api, f"{subject}-part", record(A, name="Part"))
    register(api, subject, record(A))
    reference = {"name": "Part", "subject": f"{subject}-part", "version": 1}
    whole = {
        "schema": record({"name": "p", "type": "Part"}, name="Whole"),
        "references": [reference],
    }
    assert error(api.post(f"/subjects/{subject}", json=whole)) == (404, 40403)
    assert error(api.post(f"/subjects/{subject}-none", json=whole)) == (404, 40401)


def test_a_prefix_of_subjects_holds_in_one_context(api: httpx.Client, subject: str) -> None:
    """Without a prefix or a context in the path, subjects of all contexts are listed."""
    register(api, subject, record(A))
    inside = f":.{subject}:{subject}"
    register(api, inside, record(A))
    listed = {
        "/subjects": [inside, subject],
        "/subjects?subjectPrefix=": [subject],
        "/contexts/:.:/subjects": [subject],
        f"/contexts/.{subject}/subjects": [inside],
        f"/contexts/.{subject}/subjects?subjectPrefix=test": [inside],
        f"/subjects?subjectPrefix=:*:{subject}": [inside, subject],
    }
    for path, expected in listed.items():
        assert [each for each in api.get(path).json() if subject in each] == expected, path


def test_an_alias_can_be_taken_away(api: httpx.Client, subject: str) -> None:
    """An empty alias is none, and schemas are listed with their aliases."""
    register(api, subject, record(A))
    alias = f"{subject}-alias"
    api.put(f"/config/{alias}", json={"alias": subject})
    query: dict[str, str | bool] = {"subjectPrefix": alias, "aliases": True}
    (listed,) = api.get("/schemas", params=query).json()
    assert (listed["subject"], listed["aliases"]) == (subject, [alias])
    api.put(f"/config/{alias}", json={"alias": ""})
    assert error(api.get(f"/subjects/{alias}/versions")) == (404, 40401)
    assert api.get("/schemas", params=query).json() == []


def test_an_unknown_policy_is_refused(api: httpx.Client, subject: str) -> None:
    """It would silently be the strict one."""
    refused = api.put(f"/config/{subject}", json={"compatibilityPolicy": "LENINT"})
    assert error(refused) == (422, 42203)
    assert "STRICT, LENIENT" in refused.json()["message"]
    assert api.put(f"/config/{subject}", json={"compatibilityPolicy": "LENIENT"}).status_code == 200


def test_metadata_and_rules_of_a_version_are_changed_in_a_new_one(
    api: httpx.Client, subject: str
) -> None:
    """Its text stays. The number of the new version is noted in its metadata."""
    rules = {"domainRules": [{"name": "old", "type": "CEL"}]}
    register(api, subject, record(A), metadata={"properties": {"owner": "ann"}}, ruleSet=rules)
    path = f"/subjects/{subject}/versions"
    changed = {
        "rulesToMerge": {"domainRules": [{"name": "new", "type": "CEL"}]},
        "rulesToRemove": ["old"],
    }
    made = api.post(f"{path}/1/tags", json=changed).json()
    assert (made["version"], made["schema"]) == (2, record(A))
    assert made["metadata"] == {"properties": {"confluent:version": "2", "owner": "ann"}}
    assert [rule["name"] for rule in made["ruleSet"]["domainRules"]] == ["new"]
    again = api.post(
        f"{path}/latest/tags", json={"newVersion": 3, "metadata": {"properties": {"owner": "eve"}}}
    ).json()
    assert again["metadata"] == {"properties": {"confluent:version": "3", "owner": "eve"}}
    assert again["ruleSet"] == made["ruleSet"]
    assert error(api.post(f"{path}/9/tags", json={})) == (404, 40402)
    assert error(api.post(f"{path}/1/tags", json={"tagsToAdd": [{"tags": ["PII"]}]})) == (422, 422)
    assert error(api.post(f"{path}/1/tags", json={"newVersion": 9})) == (422, 42201)


def test_a_version_that_is_there_may_be_asked_for_by_number(
    api: httpx.Client, subject: str
) -> None:
    """-1 asks for a new version that notes its number."""
    made = register(api, subject, record(A), version=1)
    assert register(api, subject, record(A), version=1) == made
    assert register(api, subject, record(A))["version"] == 1
    wrong = {"schema": record(A), "version": 3}
    assert error(api.post(f"/subjects/{subject}/versions", json=wrong)) == (422, 42201)
    noted = register(api, subject, record(A), version=-1)
    assert (noted["version"], noted["metadata"]) == (2, {"properties": {"confluent:version": "2"}})


def test_an_id_comes_with_a_version_that_has_it(api: httpx.Client, subject: str) -> None:
    """Python's client keeps that version, and needs its id in it."""
    made = register(api, subject, record(A, name=f"Of_{subject.replace('-', '_')}"))
    found = api.get(f"/schemas/ids/{made['id']}").json()
    assert (found["subject"], found["version"], found["id"]) == (subject, 1, made["id"])
    maximum = api.get(f"/schemas/ids/{made['id']}?fetchMaxId=true").json()["maxId"]
    assert maximum >= made["id"]


def test_probes_work_below_a_context_too(api: httpx.Client) -> None:
    """Clients may have the context in the URL of the registry."""
    for path in ("", "/", "/v1/metadata/id", "/v1/metadata/version", "/contexts"):
        assert api.get(f"/contexts/.probed{path}").status_code == 200, path
    assert error(api.get("/contexts/.probed/associations/resources/-/orders")) == (404, 40410)


def test_the_mode_of_the_default_context_can_always_be_removed(api: httpx.Client) -> None:
    """It has one, whether or not it was set."""
    assert api.delete("/mode").json() == {"mode": "READWRITE"}
    assert api.put("/mode", json={"mode": "READONLY"}).status_code == 200
    assert api.delete("/mode").json() == {"mode": "READONLY"}
    assert api.get("/mode").json() == {"mode": "READWRITE"}


def test_deleted_referrers_are_listed_when_asked_for(api: httpx.Client, subject: str) -> None:
    """They do not hold a version any more."""
    register(api, f"{subject}-part", record(A, name="Part"))
    reference = {"name": "Part", "subject": f"{subject}-part", "version": 1}
    whole = register(api, subject, record({"name": "p", "type": "Part"}), references=[reference])
    api.delete(f"/subjects/{subject}")
    path = f"/subjects/{subject}-part/versions/1/referencedby"
    assert api.get(path).json() == []
    assert api.get(f"{path}?deleted=true").json() == [whole["id"]]


def test_a_schema_that_is_too_large_is_told_apart_from_an_invalid_one(
    api: httpx.Client, subject: str
) -> None:
    """A name for all contexts is no subject either."""
    text = json.dumps({"type": "record", "name": "Large", "doc": "x" * (1 << 20), "fields": []})
    assert error(api.post(f"/subjects/{subject}/versions", json={"schema": text})) == (422, 42209)
    assert error(api.post(f"/subjects/:*:{subject}/versions", json={"schema": record(A)})) == (
        422,
        42208,
    )
