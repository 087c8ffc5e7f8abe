"""The registry asks an in-memory set of rights before it acts.

``ann`` has the rights of each test.
"""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from log_service.common.access import AclOperation, AclResource
from log_service.http.schema_registry.authorization import CALLER_HEADER, CALLER_HOST_HEADER, Access
from log_service.http.schema_registry.records import (
    RegistryRecord,
    StoredSchema,
    context_record,
    settings_record,
)
from log_service.http.schema_registry.values import Reference, Settings
from log_service.http.server.values import HttpRequest
from tests.unit.http.schema_registry.builders import stored
from tests.unit.http.schema_registry.served import ANN, Served, tell

Right = tuple[str, str]
"""A principal and what it may do: ``WRITE orders``, or ``ALTER_CONFIGS *cluster``."""
FORBIDDEN = (403, 40301)
PART = '{"type":"record","name":"Part","fields":[]}'
WHOLE = '{"type":"record","name":"Whole","fields":[{"name":"p","type":"Part"}]}'
IMPLIED = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}


def access_of(rights: Iterable[str]) -> Access:
    """Return the decision over the rights of ann. Others may do everything."""
    granted = {tuple(each.split()) for each in rights}

    def may(
        request: HttpRequest, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        place = name if resource is AclResource.TOPIC else "*cluster"
        names = {operation.name, *IMPLIED.get(operation.name, ())}
        return request.principal != ANN or any((each, place) in granted for each in names)

    return may


def served_with(*rights: str) -> Served:
    """Return a registry with subjects of the topics orders, secret and part, two contexts and an
    alias.
    """
    served = Served(access=access_of(rights))
    records: list[RegistryRecord | StoredSchema] = [
        stored("orders-value", 1, 1, '"int"'),
        stored("secret-value", 1, 2, '"long"'),
        stored("secret-key", 1, 1, '"int"'),
        stored("Part", 1, 3, PART),
        stored(
            "whole-value",
            1,
            4,
            WHOLE,
            references=(Reference(name="Part", subject="Part", version=1),),
        ),
        context_record(".hidden"),
        stored(":.hidden:secret-value", 1, 1, '"double"'),
        context_record(".shown"),
        stored(":.shown:orders-value", 1, 1, '"double"'),
        settings_record("open", Settings(alias="secret-value")),
    ]
    served.have(*records)
    return served


def statuses(served: Served, *calls: tuple[str, str, Any]) -> list[int]:
    """Return the status of each call by ann."""
    found: list[int] = []

    async def story(served: Served) -> None:
        for method, target, body in calls:
            found.append((await served.ask(method, target, body))[0])

    tell(story, served)
    return found


INT = {"schema": '"int"'}
SUBJECT_CALLS = [
    ("DESCRIBE orders", "POST", "/subjects/orders-value", INT),
    ("DESCRIBE orders", "GET", "/subjects/orders-value/metadata", None),
    ("DESCRIBE orders", "GET", "/subjects/orders-value/versions", None),
    ("DESCRIBE orders", "GET", "/subjects/orders-value/versions/1", None),
    ("DESCRIBE orders", "GET", "/subjects/orders-value/versions/1/schema", None),
    ("DESCRIBE orders", "GET", "/subjects/orders-value/versions/1/referencedby", None),
    ("DESCRIBE orders", "POST", "/compatibility/subjects/orders-value/versions", INT),
    ("DESCRIBE orders", "POST", "/compatibility/subjects/orders-value/versions/1", INT),
    ("WRITE orders", "POST", "/subjects/orders-value/versions", {"schema": '"int"'}),
    (
        "WRITE orders",
        "POST",
        "/subjects/orders-value/versions/1/tags",
        {"metadata": {"properties": {"a": "b"}}},
    ),
    ("DELETE orders", "DELETE", "/subjects/orders-value/versions/1", None),
    ("DELETE orders", "DELETE", "/subjects/orders-value", None),
    ("ALTER_CONFIGS orders", "PUT", "/config/orders-value", {"compatibility": "NONE"}),
    ("ALTER_CONFIGS orders", "DELETE", "/config/orders-value", None),
    ("ALTER_CONFIGS orders", "PUT", "/mode/orders-value", {"mode": "READONLY"}),
    ("ALTER_CONFIGS orders", "DELETE", "/mode/orders-value", None),
    ("DESCRIBE_CONFIGS orders", "GET", "/config/orders-value?defaultToGlobal=true", None),
    ("DESCRIBE_CONFIGS orders", "GET", "/mode/orders-value?defaultToGlobal=true", None),
    ("DESCRIBE_CONFIGS *cluster", "GET", "/config", None),
    ("DESCRIBE_CONFIGS *cluster", "GET", "/mode", None),
    ("ALTER_CONFIGS *cluster", "PUT", "/config", {"compatibility": "NONE"}),
    ("ALTER_CONFIGS *cluster", "DELETE", "/config", None),
    ("ALTER_CONFIGS *cluster", "PUT", "/mode", {"mode": "READONLY"}),
    ("ALTER_CONFIGS *cluster", "DELETE", "/mode?recursive=true", None),
    ("ALTER_CONFIGS *cluster", "DELETE", "/contexts/.gone", None),
    ("ALTER_CONFIGS *cluster", "PUT", "/config/:.shown:", {"compatibility": "NONE"}),
]


@pytest.mark.parametrize(("right", "method", "target", "body"), SUBJECT_CALLS)
def test_each_call_takes_its_right(right: str, method: str, target: str, body: Any) -> None:
    """No other right on the same topic is enough, and none on another topic."""

    async def story(served: Served) -> None:
        status, answer = await served.ask(method, target, body)
        assert (status, answer["error_code"]) == FORBIDDEN
        operation, place = right.split()
        where = "the cluster" if place == "*cluster" else f"topic {place}"
        assert answer["message"].endswith(f"that takes {operation} on {where}")

    operation, place = right.split()
    others = {each.name for each in AclOperation} - {operation} - IMPLIED.get(operation, set())
    tell(
        story,
        served_with(
            f"{operation} other",
            *(f"{each} {place}" for each in others if each not in {"ALL", "DESCRIBE"}),
        ),
    )
    assert statuses(served_with(right), (method, target, body))[0] not in {401, 403}


@pytest.mark.parametrize(("right", "method", "target", "body"), SUBJECT_CALLS)
def test_a_context_in_the_path_takes_the_same_right(
    right: str, method: str, target: str, body: Any
) -> None:
    """Contexts are no way around the rights on a topic. Settings of a context are the cluster's."""
    if target.startswith("/contexts"):
        return
    path = f"/contexts/.shown{target}"
    assert statuses(served_with("DESCRIBE other"), (method, path, body)) == [403]
    assert statuses(served_with(right), (method, path, body))[0] not in {401, 403}


@pytest.mark.parametrize(
    "subject",
    [
        "secret-value",
        ":.:secret-value",
        ":.hidden:secret-value",
        ":.hidden:secret-key",
        ":.orders-value:secret-value",
        "open",
    ],
)
def test_no_name_of_a_subject_goes_around_its_topic(subject: str) -> None:
    """An alias stands for its subject, and a context is no part of the topic."""
    calls = [
        (method, target.replace("orders-value", subject), body)
        for right, method, target, body in SUBJECT_CALLS
        if "orders" in right
    ]
    reading = [each for each in calls if "/config/" not in each[1] and "/mode/" not in each[1]]
    assert set(statuses(served_with("ALL orders", "ALL open", "ALL :.orders-value"), *reading)) == {
        403
    }


def test_an_alias_is_followed_once() -> None:
    """The handler uses the subject that the right was decided over."""
    served = served_with("DESCRIBE orders", "ALTER_CONFIGS first")
    served.have(
        settings_record("first", Settings(alias="orders-value")),
        settings_record("orders-value", Settings(alias="secret-value")),
    )

    async def story(served: Served) -> None:
        assert (await served.ask("GET", "/subjects/first/versions/1"))[1][
            "subject"
        ] == "orders-value"
        assert (await served.ask("GET", "/subjects/orders-value/versions/1"))[0] == 403

    tell(story, served)


def test_the_subject_of_a_waiting_change_stays_the_one_that_was_allowed() -> None:
    """An alias that changes meanwhile does not lead the change elsewhere."""
    served = served_with("DELETE orders")
    served.have(settings_record("mine", Settings(alias="orders-value")))

    async def change_alias() -> None:
        served.have(settings_record("mine", Settings(alias="secret-value")))

    served.log.pause = change_alias

    async def story(served: Served) -> None:
        assert (await served.ask("DELETE", "/subjects/mine"))[0] == 200
        assert served.registry.state.is_live("secret-value")
        assert not served.registry.state.is_live("orders-value")

    tell(story, served)


def test_lists_leave_out_what_may_not_be_read() -> None:
    """Subjects, schemas, contexts, users of an id, referrers, and ids of a content."""

    async def story(served: Served) -> None:
        assert (await served.ask("GET", "/subjects"))[1] == [
            ":.shown:orders-value",
            "Part",
            "orders-value",
        ]
        assert (await served.ask("GET", "/contexts"))[1] == [".", ".shown"]
        assert (await served.ask("GET", "/contexts/.hidden/subjects"))[1] == []
        listed = await served.respond("GET", "/schemas?aliases=true&deleted=true")
        assert isinstance(listed.body, bytes)
        assert [each["subject"] for each in json.loads(listed.body)] == [
            ":.shown:orders-value",
            "Part",
            "orders-value",
        ]
        assert (await served.ask("GET", "/schemas/ids/1/subjects"))[1] == ["orders-value"]
        assert (await served.ask("GET", "/schemas/ids/1/versions"))[1] == [
            {"subject": "orders-value", "version": 1}
        ]
        assert (await served.ask("GET", "/subjects/Part/versions/1/referencedby"))[1] == []
        guid = (await served.ask("GET", "/subjects/orders-value/versions/1"))[1]["guid"]
        assert (await served.ask("GET", f"/schemas/guids/{guid}/ids"))[1] == [
            {"context": ".", "id": 1}
        ]

    tell(story, served_with("DESCRIBE orders", "DESCRIBE Part"))


def test_the_cluster_shows_all_contexts_to_those_who_may_describe_it() -> None:
    """Empty ones, too."""

    async def story(served: Served) -> None:
        served.have(context_record(".empty"))
        assert (await served.ask("GET", "/contexts"))[1] == [".", ".empty", ".hidden", ".shown"]

    tell(story, served_with("DESCRIBE *cluster"))


@pytest.mark.parametrize("form", ["", "/schema", "/subjects", "/versions"])
def test_an_id_tells_no_name_of_a_hidden_subject(form: str) -> None:
    """Ids are easy to count up."""

    async def story(served: Served) -> None:
        status, answer = await served.ask("GET", f"/schemas/ids/2{form}")
        assert (status, answer["error_code"]) == FORBIDDEN
        assert "secret" not in answer["message"]
        assert "schema 2" in answer["message"]

    tell(story, served_with("DESCRIBE orders"))


def test_a_content_is_found_by_its_guid_where_one_of_its_subjects_may_be_read() -> None:
    """It may be in several contexts, and the first one may be hidden."""

    async def story(served: Served) -> None:
        hidden = served.registry.state.version(":.hidden:secret-value", 1)
        assert hidden is not None
        shown = (await served.ask("GET", f"/schemas/guids/{hidden.guid}"))[1]
        assert shown["schema"] == '"double"'
        assert (await served.ask("GET", f"/schemas/guids/{hidden.guid}/ids"))[1] == [
            {"context": ".shown", "id": 1}
        ]
        secret = served.registry.state.version("secret-value", 1)
        assert secret is not None
        for form in ("", "/ids"):
            status, answer = await served.ask("GET", f"/schemas/guids/{secret.guid}{form}")
            assert (status, answer["error_code"]) == FORBIDDEN
            assert "secret" not in answer["message"]

    tell(story, served_with("DESCRIBE orders"))


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/subjects/orders-value/versions"),
        ("POST", "/subjects/orders-value"),
        ("POST", "/compatibility/subjects/orders-value/versions/latest"),
    ],
)
@pytest.mark.parametrize("subject", ["Part", ":.:Part", ":.hidden:Part", "missing"])
def test_a_schema_refers_to_those_alone_that_its_author_may_read(
    method: str, target: str, subject: str
) -> None:
    """It would show their text, and a refusal would tell whether they exist."""
    body = {"schema": WHOLE, "references": [{"name": "Part", "subject": subject, "version": 1}]}

    async def story(served: Served) -> None:
        status, answer = await served.ask(method, target, body)
        assert (status, answer["error_code"]) == FORBIDDEN
        assert "may not read subject" in answer["message"]
        assert answer["message"].endswith(f"DESCRIBE on topic {subject.rpartition(':')[2]}")

    tell(story, served_with("WRITE orders"))
    assert (
        statuses(
            served_with("WRITE orders", "DESCRIBE Part", "DESCRIBE missing"), (method, target, body)
        )[0]
        != 403
    )


def test_a_reader_of_a_schema_reads_it_with_its_references_in_it() -> None:
    """They are a part of it. Their own subject stays hidden."""

    async def story(served: Served) -> None:
        status, shown = await served.ask("GET", "/subjects/whole-value/versions/1?format=resolved")
        assert status == 200
        assert '"name":"Part","fields"' in shown["schema"]
        assert (await served.ask("GET", "/subjects/Part/versions/1"))[0] == 403

    tell(story, served_with("DESCRIBE whole"))


def test_registering_takes_the_right_to_read_because_a_refusal_shows_a_schema() -> None:
    """WRITE allows to describe, unless a DENY forbids it."""

    def may(
        _request: HttpRequest, operation: AclOperation, _resource: AclResource, _name: str
    ) -> bool:
        return operation is AclOperation.WRITE

    served = Served(access=may)
    served.have(stored("orders-value", 1, 1, '"int"'))

    async def story(served: Served) -> None:
        status, answer = await served.ask(
            "POST", "/subjects/orders-value/versions", {"schema": '"boolean"'}
        )
        assert (status, answer["error_code"]) == FORBIDDEN
        assert "DESCRIBE on topic orders" in answer["message"]

    tell(story, served)


def test_a_forced_registration_takes_the_right_to_change_settings() -> None:
    """It would go around the compatibility that the settings ask for."""
    call = ("POST", "/subjects/orders-value/versions?force=true", {"schema": '"boolean"'})
    assert statuses(served_with("WRITE orders"), call) == [403]
    assert statuses(served_with("WRITE orders", "ALTER_CONFIGS orders"), call) == [200]


def test_importing_takes_the_right_on_the_cluster() -> None:
    """A subject that imports takes ids that belong to all subjects of its context."""
    call = ("PUT", "/mode/orders-value?force=true", {"mode": "IMPORT"})
    assert statuses(served_with("ALTER_CONFIGS orders"), call) == [403]
    assert statuses(served_with("ALTER_CONFIGS orders", "ALTER_CONFIGS *cluster"), call) == [200]


def test_the_last_id_of_a_context_is_not_passed() -> None:
    """Clients have 32 bits for it. An importer may have used it up."""

    async def story(served: Served) -> None:
        served.have(stored("last", 1, 2**31 - 1, '"bytes"'))
        status, answer = await served.ask("POST", "/subjects/new/versions", {"schema": '"float"'})
        assert (status, answer["error_code"]) == (422, 42205)
        assert "last id" in answer["message"]
        assert (await served.ask("POST", "/subjects/new/versions", {"schema": '"bytes"'}))[1][
            "id"
        ] == 2**31 - 1
        assert (await served.ask("POST", "/subjects/:.other:new/versions", {"schema": '"float"'}))[
            1
        ]["id"] == 1

    tell(story)


def test_an_instance_that_may_forward_names_the_caller() -> None:
    """Its own rights do not count then, and those of the caller do, from the caller's address."""
    asked: list[tuple[str, str, str]] = []

    def may(
        request: HttpRequest, operation: AclOperation, _resource: AclResource, _name: str
    ) -> bool:
        asked.append((request.principal, request.peer, operation.name))
        return request.principal == "User:follower" and operation is AclOperation.CLUSTER_ACTION

    headers = {
        CALLER_HEADER.replace("-", "_"): "User:CN=J%C3%B6rg",
        CALLER_HOST_HEADER.replace("-", "_"): "192.0.2.9",
    }

    async def story(served: Served) -> None:
        status, answer = await served.ask(
            "DELETE", "/subjects/a", principal="User:follower", **headers
        )
        assert status == 403
        assert answer["message"].startswith("User:CN=Jörg may not delete versions")
        assert asked == [
            ("User:follower", "192.0.2.1", "CLUSTER_ACTION"),
            ("User:CN=Jörg", "192.0.2.9", "DELETE"),
        ]
        status, answer = await served.ask(
            "DELETE", "/subjects/a", principal="User:stranger", **headers
        )
        assert (status, answer["error_code"]) == FORBIDDEN
        assert (
            answer["message"]
            == "User:stranger may not forward requests of others: that takes CLUSTER_ACTION on the cluster"
        )

    tell(story, Served(access=may))
