"""People log in to a console over TLS, and may do there what the cluster allows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.console_pages import Person
from tests.integration.http.secured import ANN, BOB, OPERATOR, Secured, basic, secured, until
from tests.integration.secure_nodes import password_of

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured-console")) as running:
        yield running


@pytest.fixture(scope="module")
def schemas(node: Secured) -> Iterator[RegistryProcess]:
    with node.registry() as running:
        yield running


@pytest.fixture(scope="module")
def console(node: Secured, schemas: RegistryProcess) -> Iterator[ConsoleProcess]:
    properties = {
        "schema.registry.url": schemas.url,
        "schema.registry.ssl.truststore.type": "PEM",
        "schema.registry.ssl.truststore.location": str(node.authority.truststore),
        **node.console_properties(),
    }
    with ConsoleProcess(node.directory, node.plain, node.context(), **properties) as running:
        yield running


@pytest.fixture
def person(node: Secured, console: ConsoleProcess) -> Iterator[Person]:
    with Person(console.url, verify=node.context()) as found:
        yield found


def create(node: Secured, *names: str) -> None:
    with BlockingAdmin(node.plain) as admin:
        admin.create_topics([NewTopic(name=name) for name in names])
    with BlockingProducer(node.plain) as producer:
        for name in names:
            producer.send(name, f"secret of {name}")
        producer.flush()


def audit_of(console: ConsoleProcess) -> str:
    return "\n".join(
        each for each in Path(console.log).read_text().splitlines() if "audit:" in each
    )


def test_a_person_sees_and_does_what_the_acls_allow(
    node: Secured, console: ConsoleProcess, person: Person
) -> None:
    create(node, "orders", "salaries")
    node.allow(ANN, "describe orders", "alter_configs orders", "describe_configs orders")
    assert "Log in" in person.open("/")
    page = person.log_in(ANN, password_of(ANN))
    assert "orders" in page
    assert "salaries" not in page
    assert "The last hour" not in person.open("/cluster")  # ann may not describe the cluster
    (cookie,) = person.client.cookies.jar
    assert cookie.name.startswith("__Host-")
    assert cookie.secure
    person.open("/topics/salaries", 403)
    person.open("/topics/orders/records", 403)
    person.open("/topics/orders/configs")
    preview = person.send("/topics/orders/configs", configs="retention.ms=5000")
    assert "The configs were changed" in person.confirm(preview)
    preview = person.send("/topics/orders/delete")
    person.confirm(preview, 403, confirmation="orders")
    told = audit_of(console)
    assert "principal=User:ann address=127.0.0.1 action=alter configs" in told
    assert "action=delete topic target=orders result=refused TOPIC_AUTHORIZATION_FAILED" in told
    assert password_of(ANN) not in Path(console.log).read_text()


def test_two_people_have_their_own_rights(
    node: Secured, console: ConsoleProcess, person: Person
) -> None:
    create(node, "shared")
    node.allow(BOB, "describe shared")
    with Person(console.url, verify=node.context()) as other:
        other.open("/")
        assert "shared" in other.log_in(BOB, password_of(BOB))
        person.open("/")
        assert "shared" not in person.log_in(ANN, password_of(ANN))
        other.send("/logout")
        assert "Log in" in other.open("/topics/shared")
        person.open("/topics/shared", 403)


def test_the_schema_registry_is_asked_as_the_person(
    node: Secured, schemas: RegistryProcess, person: Person
) -> None:
    with node.client(schemas, certificate=OPERATOR) as operator:
        for subject in ("shown-value", "hidden-value"):
            path = f"/subjects/{subject}/versions"
            operator.post(path, json={"schema": '"int"'}).raise_for_status()
    node.allow(ANN, "describe shown")
    until(lambda: is_shown(node, schemas), "the ACL")
    person.open("/")
    person.log_in(ANN, password_of(ANN))
    page = person.open("/schemas")
    assert "shown-value" in page
    assert "hidden-value" not in page


def is_shown(node: Secured, schemas: RegistryProcess) -> bool:
    """Return whether the registry knows ann's right by now."""
    with node.client(schemas, authorization=basic(ANN)) as ann:
        return "shown-value" in ann.get("/subjects").text


def test_a_wrong_password_opens_nothing(console: ConsoleProcess, person: Person) -> None:
    person.open("/")
    assert "The cluster refuses" in person.log_in(ANN, "wrong", 401)
    assert "Log in" in person.open("/topics")
    assert person.client.get("/metrics").status_code == 401
    assert person.client.get("/readyz").status_code == 200
