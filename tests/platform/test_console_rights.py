"""People with logins see, ask and change tables as their rights on topics allow it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin
from log_service.common.access import AclOperation
from tests.integration.http.console_pages import Person, readable
from tests.integration.http.secured import ANN, BOB, Secured, secured
from tests.integration.secure_nodes import SCRAM, password_of
from tests.platform.console_project import ConsoleProject, ProjectConsole, completed

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured-pages")) as running:
        yield running


@pytest.fixture(scope="module")
def console(node: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectConsole]:
    project = ConsoleProject(folder=tmp_path_factory.mktemp("shop"), bootstrap=node.plain)
    project.write()
    with project.console(node.context(), **node.console_properties()) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_rights(node: Secured) -> None:
    node.forbid(ANN)
    node.forbid(BOB)


@pytest.fixture
def ann(node: Secured, console: ProjectConsole) -> Iterator[Person]:
    with Person(console.url, verify=node.context()) as found:
        found.open("/")
        found.log_in(ANN, password_of(ANN))
        yield found


def ask(person: Person, question: str, status: int = 200) -> str:
    page = person.send("/pipelines/sql", status, question=question)
    return readable(completed(person, page))


def audit_of(console: ProjectConsole) -> str:
    return "\n".join(
        each for each in Path(console.log).read_text().splitlines() if "audit:" in each
    )


def test_a_person_without_rights_sees_asks_and_changes_nothing(
    console: ProjectConsole, ann: Person
) -> None:
    page = readable(ann.open("/pipelines"))
    assert "lake/clean" not in page
    assert "3 tables not shown" in page
    assert "needs READ on the topics that it is from: orders" in readable(
        ann.open("/pipelines/tables/clean_orders", 403)
    )
    for path in (
        "/pipelines/tables/clean_orders/rows", "/pipelines/letters/clean_orders",
        "/pipelines/letter?table=clean_orders&place=0:40", "/pipelines/tables/dead_letters",
    ):  # fmt: skip
        ann.open(path, 403)
    assert "clean_orders" not in ann.open("/pipelines/letters")
    assert "clean_orders" not in ann.open("/pipelines/sql")
    for question in (
        "FROM clean_orders", "FROM by_note", "FROM dead_letters", "FROM topics.orders",
        "FROM topics.unknown", "SELECT 1 FROM clean_salaries, clean_orders",
        "WITH clean_orders AS (FROM clean_salaries) FROM clean_orders",
        "FROM read_blob('data/lake/clean_salaries/*.parquet')",
    ):  # fmt: skip
        assert "needs READ" in ask(ann, question, 403)
    assert "42" in ask(ann, "SELECT 42")
    assert "Permission Error" in ask(ann, "FROM read_blob('data/lake/*/*.parquet')")
    form = {"table": "clean_orders", "place": "0:40", "value": "{}"}
    ann.send("/pipelines/fix", 403, **form, confirmed=1)
    ann.send("/pipelines/replay", 403, table="clean_orders", confirmed=1)
    assert "action=fix dead letters" not in audit_of(console)


def test_a_reader_of_one_topic_sees_what_is_made_of_it(
    console: ProjectConsole, ann: Person, node: Secured
) -> None:
    node.allow(ANN, "read orders")
    page = readable(ann.open("/pipelines"))
    assert "lake/clean_orders" in page
    assert "marts/by_note" in page
    assert "clean_salaries" not in page
    assert "40" in ask(ann, "SELECT count(*) FROM clean_orders")
    assert "4 rows" in ask(ann, "FROM by_note")
    assert "1 row" in ask(ann, "FROM topics.orders LIMIT 1")
    assert "READ on the topics that it is from: salaries" in ask(ann, "FROM clean_salaries", 403)
    assert "READ" in ask(ann, "FROM dead_letters", 403)
    assert "0:40" in ann.open("/pipelines/letters/clean_orders")
    form = {"table": "clean_orders", "place": "0:40", "value": "{}"}
    refused = readable(ann.send("/pipelines/fix", 403, **form, confirmed=1))
    assert "to fix dead letters of clean_orders needs WRITE" in refused
    told = audit_of(console)
    assert "principal=User:ann address=127.0.0.1 action=fix dead letters" in told
    assert "target=clean_orders 0:40 result=refused 403" in told


def test_a_writer_may_replay_and_others_do_not_see_the_result(
    console: ProjectConsole, ann: Person, node: Secured
) -> None:
    node.allow(ANN, "read orders", "write orders")
    node.allow(BOB, "read orders")
    page = ann.send("/pipelines/replay", table="clean_orders", rule="schema")
    page = completed(ann, page)
    assert "1 dead letter would be read once more" in readable(page)
    answer = ann.client.post(
        "/pipelines/sql",
        data={"csrf_token": ann.token, "question": "SELECT 42"},
        headers={"origin": ann.url},
    )
    with Person(console.url, verify=node.context()) as bob:
        bob.open("/")
        bob.log_in(BOB, password_of(BOB))
        bob.open(answer.headers["location"], 404)
    ann.open(answer.headers["location"])


def test_a_client_is_told_its_own_operations(node: Secured, console: ProjectConsole) -> None:
    node.allow(ANN, "read orders", "describe salaries")
    settings = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": SCRAM,
        "sasl_username": ANN,
        "sasl_password": password_of(ANN),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(node.authority.truststore),
    }
    assert console.project.bootstrap == node.plain
    with BlockingAdmin(node.login, **settings) as admin:
        found = admin.describe_topic_operations(["orders", "salaries", "missing"])
        ids = {name: each.topic_id for name, each in admin.describe_topics(["orders"]).items()}
    assert found["orders"].topic_id == ids["orders"]
    assert {name: each.operations for name, each in found.items()} == {
        "orders": {AclOperation.READ, AclOperation.DESCRIBE},
        "salaries": {AclOperation.DESCRIBE},
    }
