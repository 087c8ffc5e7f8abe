"""``tidelog schemas`` without a cluster: what is sent, what is printed, and what is refused."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from log_service.cli.main import tidelog
from log_service.cli.registry_connection import (
    RegistryAccess,
    default_registry,
    registry_options,
    take_access,
)
from log_service.cli.schema_files import schema_type_of
from log_service.cli.schemas import difference, pretty, reference_of
from log_service.client import RegisteredSchema, Schema, SchemaReference
from tests.unit.client.schemas.registry_double import RegistryDouble, served

NOBODY = "http://127.0.0.1:1"
ORDER = '{"type":"record","name":"Order","fields":[]}'


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a registry in memory."""
    with served(RegistryDouble()) as url:
        yield url


def invoke(*arguments: str, given: str | None = None, **environment: str) -> Result:
    """Run a command of ``tidelog schemas``."""
    runner = CliRunner(env={"COLUMNS": "80", "TIDELOG_SCHEMA_REGISTRY_URL": None, **environment})
    return runner.invoke(tidelog, ["schemas", *arguments], input=given)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a schema in Avro."""
    path = tmp_path / "order.avsc"
    path.write_text(ORDER)
    return path


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("a.avsc", None, "AVRO"),
        ("a.b.JSON", None, "JSON"),
        ("x/a.proto", None, "PROTOBUF"),
        ("-", "JSON", "JSON"),
        ("a.proto", "AVRO", "AVRO"),
    ],
)
def test_the_suffix_tells_the_type_unless_it_is_given(
    name: str, given: str | None, found: str
) -> None:
    """A given type wins."""
    assert schema_type_of(name, given) == found


def test_a_name_that_tells_no_type_is_refused() -> None:
    """Standard input has no suffix."""
    with pytest.raises(
        click.UsageError, match=r"'<stdin>' does not tell the type .* give it with --type"
    ):
        schema_type_of("<stdin>", None)


def test_a_reference_may_be_a_url_and_its_subject_may_be_in_a_context() -> None:
    """The last colon comes before the version."""
    found = reference_of("http://x/a.json=:.staging:a:3")
    assert found == SchemaReference(name="http://x/a.json", subject=":.staging:a", version=3)
    assert str(found) == "http://x/a.json=:.staging:a:3"
    assert reference_of("a=b:latest").version == -1
    assert str(reference_of("a=b:latest")) == "a=b:latest"


@pytest.mark.parametrize("text", ["a", "a=b", "a=:1", "=b:1", "a=b:x", "a=b:-1", "a=b:9999999999"])
def test_a_text_that_is_no_reference_is_refused(text: str) -> None:
    """The sentence has the form."""
    with pytest.raises(click.BadParameter, match="is not NAME=SUBJECT:VERSION"):
        reference_of(text)


def test_schemas_are_printed_in_several_lines_and_odd_ones_as_they_are() -> None:
    """Protobuf is not JSON, and a registry may hold a text that is none."""
    assert pretty(Schema(text='{"type":"int"}')) == '{\n  "type": "int"\n}'
    assert (
        pretty(Schema(text='syntax = "proto3";\n', schema_type="PROTOBUF")) == 'syntax = "proto3";'
    )
    assert pretty(Schema(text="{", schema_type="JSON")) == "{"


def test_a_difference_names_versions_and_references() -> None:
    """References are no part of the text, and still differ."""
    reference = SchemaReference(name="m", subject="money", version=1)
    before = RegisteredSchema(schema=Schema(text='{"type":"int"}'), id=1, subject="s", version=1)
    after = RegisteredSchema(
        schema=Schema(text='{"type":"long"}', references=(reference,)), id=2, subject="s", version=2
    )
    assert difference(before, after) == [
        "--- s version 1 (id 1)",
        "+++ s version 2 (id 2)",
        "@@ -1,3 +1,4 @@",
        " {",
        '-  "type": "int"',
        '+  "type": "long"',
        " }",
        "+reference m=money:1",
    ]


def test_a_schema_is_registered_and_printed(url: str, file: Path) -> None:
    """From a file, and from standard input with its type."""
    assert (
        invoke("register", "a", str(file), "--registry", url).output == "a is version 1, has id 1\n"
    )
    piped = invoke(
        "register", "a", "-", "--type", "json", given="{}", TIDELOG_SCHEMA_REGISTRY_URL=url
    )
    assert piped.output == "a is version 2, has id 2\n"
    assert json.loads(invoke("get", "a", "1", "--registry", url).output) == json.loads(ORDER)
    assert invoke("get", "a", "1", "--raw", "--registry", url).output == f"{ORDER}\n"
    assert (
        json.loads(invoke("get", "--id", "2", "--json", "--registry", url).output)["type"] == "JSON"
    )
    assert "+{}" in invoke("diff", "a", "1", "--registry", url).output


@pytest.mark.parametrize("command", ["register", "check"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_refused(url: str, file: Path, command: str, text: str) -> None:
    """A registry takes an empty text as the version before, so it looked registered."""
    file.write_text(ORDER)
    invoke("register", "a", str(file), "--registry", url)
    file.write_text(text)
    result = invoke(command, "a", str(file), "--registry", url)
    assert result.exit_code == 1
    assert "the file is empty" in result.output


def test_an_incompatible_schema_is_told_as_a_check_tells_it(file: Path) -> None:
    """The refusal of a registry is one line with both schemas in it."""

    class Refusing(RegistryDouble):
        def answer(self, method: str, target: str, content: bytes) -> tuple[int, Any]:
            if method == "POST" and target.startswith("/compatibility"):
                return 200, {"is_compatible": False, "messages": ["field id: gone", "field n: new"]}
            if method == "POST":
                return 409, {"error_code": 409, "message": "incompatible, details: [...]"}
            return super().answer(method, target, content)

    with served(Refusing()) as url:
        registered = invoke("register", "a", str(file), "--registry", url)
        checked = invoke("check", "a", str(file), "--registry", url)
    assert (registered.exit_code, checked.exit_code) == (1, 1)
    assert checked.output.splitlines()[1:] == ["field id: gone", "field n: new"]
    assert registered.output == f"Error: {checked.output}"


def test_a_registry_that_hangs_is_told_with_the_time_of_giving_up(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """The command was silent for a minute."""
    monkeypatch.setattr("log_service.cli.registry_client.NOTE_AFTER_S", 0.01)
    settings = {"timeout": 1.0, "max_retries": 0}
    monkeypatch.setattr("log_service.cli.registry_connection.PATIENCE", settings)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = invoke("register", "a", str(file), "--registry", url)
    assert result.exit_code == 1
    note = f"waiting for the schema registry at {url}; the command gives up 1 s after a request"
    assert result.stderr.splitlines()[0] == note


def test_a_registry_that_is_not_there_is_told_with_address_and_subject(file: Path) -> None:
    """And with advice, in one sentence."""
    result = invoke("register", "orders-value", str(file), "--registry", NOBODY)
    assert result.exit_code == 1
    assert "no schema registry responded to" in result.output
    assert f"about subject 'orders-value' at {NOBODY}: " in result.output
    assert "tidelog registry serve" in result.output


def test_a_missing_subject_is_told_with_advice(url: str) -> None:
    """The registry's own code stays visible."""
    result = invoke("get", "none", "--registry", url)
    assert result.exit_code == 1
    assert f"the schema registry at {url} refused" in result.output
    assert "about subject 'none'" in result.output
    assert "code 40401); see: tidelog schemas list" in result.output


def test_a_user_logs_in_with_a_password_from_a_file(tmp_path: Path) -> None:
    """The password stands in no argument, and in no sentence."""
    password = tmp_path / "password"
    password.write_text("secret-word\n")
    result = invoke("list", "--user", "ann", "--password-file", str(password), "--registry", NOBODY)
    assert result.exit_code == 1
    assert "secret-word" not in result.output


def access(*arguments: str) -> RegistryAccess | None:
    """Return the registry that a command with these arguments would ask."""
    found: list[RegistryAccess | None] = []

    @click.command()
    @registry_options()
    def command(**given: Any) -> None:
        found.append(take_access(given))

    assert CliRunner().invoke(command, arguments, catch_exceptions=False).exit_code == 0
    return found[0]


def test_the_environments_logins_are_for_the_environments_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another registry would see a password that is not meant for it."""
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", "http://own:1")
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "ann:secret-word")
    own, other = access(), access("--registry", "http://other:1")
    assert own is not None
    assert other is not None
    assert (own.url, dict(own.settings)) == (
        "http://own:1",
        {"basic_auth_user_info": "ann:secret-word"},
    )
    assert (other.url, dict(other.settings)) == ("http://other:1", {})
    assert "secret-word" not in repr(own)


def test_the_port_of_the_installation_is_asked_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 8081 where no other is set, or none."""
    monkeypatch.delenv("TIDELOG_SCHEMA_REGISTRY_URL", raising=False)
    monkeypatch.delenv("TIDELOG_REGISTRY_PORT", raising=False)
    assert default_registry() == "http://127.0.0.1:8081"
    monkeypatch.setenv("TIDELOG_REGISTRY_PORT", "0")
    assert default_registry() == "http://127.0.0.1:8081"
    monkeypatch.setenv("TIDELOG_REGISTRY_PORT", "9081")
    found = access()
    assert found is not None
    assert found.url == "http://127.0.0.1:9081"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["get"], "name one schema: SUBJECT, or --id"),
        (["get", "a", "--id", "1"], "name one schema: SUBJECT, or --id"),
        (["get", "a", "newest"], "'newest' is neither the number of a version nor latest"),
        (["get", "a", "0"], "'0' is neither the number of a version nor latest"),
        (["list", "--registry", "localhost:8081"], "url has to look like http://127.0.0.1:8081"),
        (["list", "--registry", ""], "name a schema registry"),
        (["list", "--password-file", "-"], "--password-file needs --user"),
        (["list", "--user", "a:b", "--password-file", "-"], "no colon in the name of a user"),
        (["config", "a", "SOME"], "'SOME' is not one of"),
        (["config", "a", "--global", "FULL"], "--global is about no SUBJECT"),
        (["mode", "a", "READONLY", "--unset"], "--unset needs a SUBJECT, and nothing else"),
        (["register", "a", "/there/is/nothing"], "No such file"),
        (["register", "a", "-"], "does not tell the type"),
        (
            ["register", "a", "-", "--user", "ann", "--password-file", "-"],
            "cannot both be standard input",
        ),
        (["check", "a", "-", "--type", "AVRO", "--reference", "b"], "is not NAME=SUBJECT:VERSION"),
    ],
)
def test_wrong_usage_is_told_before_a_registry_is_asked(arguments: list[str], said: str) -> None:
    """With exit code 2."""
    result = invoke(*arguments)
    assert said in " ".join(result.output.split())
    assert result.exit_code == 2
