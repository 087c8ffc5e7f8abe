"""``tidelog schemas``, and records with schemas on the command line, over a real registry."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.integration.command_line import Finished, as_json, run

pytestmark = pytest.mark.timeout(240)

Command = Callable[..., Finished]
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}'
BROKEN = '{"type": "record", "name": "Order", "fields": [{"name": "m", "type": "int"}]}'


@pytest.fixture
def schemas(registry: RegistryProcess) -> Command:
    """Run a command of ``tidelog schemas`` against the shared registry."""

    def call(*arguments: str, given: str = "") -> Finished:
        return run(["schemas", *arguments, "--registry", registry.url], given=given)

    return call


@pytest.fixture
def tidelog(registry: RegistryProcess, bootstrap: str) -> Command:
    """Run a command against the shared cluster and registry."""

    def call(*arguments: str, given: str = "") -> Finished:
        return run([*arguments, "--registry", registry.url], bootstrap=bootstrap, given=given)

    return call


def test_a_subject_lives_from_its_first_version_to_its_removal(
    schemas: Command, subject: str, tmp_path: Path
) -> None:
    """Register, list, check, compare, and delete twice."""
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    assert "is version 1, has id" in schemas("register", subject, str(file)).output
    refused = schemas("check", subject, "-", "--type", "avro", given=BROKEN)
    assert refused.exit_code == 1
    assert refused.lines[0] == f"<stdin> is not compatible with {subject}"
    assert len(refused.lines) > 1, "the reasons are told"
    incompatible = schemas("register", subject, "-", "--type", "avro", given=BROKEN)
    assert (incompatible.exit_code, refused.output in incompatible.errors) == (1, True)
    assert schemas("config", subject).output == f"{subject}: BACKWARD (the global level)\n"
    assert schemas("config", subject, "none").output == f"{subject}: NONE\n"
    assert schemas("register", subject, "-", "--type", "avro", given=BROKEN).exit_code == 0
    assert [row["version"] for row in as_json(schemas("list", subject, "--json"))] == [2]
    assert [
        row["version"] for row in as_json(schemas("list", subject, "--versions", "--json"))
    ] == [1, 2]
    assert '+      "name": "m",' in schemas("diff", subject, "1", "2").output
    assert (
        schemas("config", subject, "--unset").output == f"{subject}: BACKWARD (the global level)\n"
    )
    early = schemas("delete", subject, "--permanent", "-y")
    assert (early.exit_code, "delete it without --permanent first" in early.errors) == (1, True)
    assert schemas("delete", subject, "-y").output == f"{subject}: 2 versions deleted (1, 2)\n"
    assert schemas("list", subject).output == f"no subject begins with '{subject}'\n"
    assert (
        schemas("delete", subject, "--permanent", "-y").output
        == f"{subject}: 2 versions removed for good (1, 2)\n"
    )


def test_a_mode_is_the_global_one_until_it_is_set(schemas: Command, subject: str) -> None:
    """Changes of a subject that is read-only are refused."""
    assert schemas("mode", subject).output == f"{subject}: READWRITE (the global mode)\n"
    assert schemas("mode", subject, "readonly").output == f"{subject}: READONLY\n"
    refused = schemas("register", subject, "-", "--type", "avro", given=ORDER)
    assert (refused.exit_code, subject in refused.errors) == (1, True)
    assert schemas("mode", subject, "--unset").output == f"{subject}: READWRITE (the global mode)\n"


def test_a_schema_refers_to_another_one(schemas: Command, subject: str) -> None:
    """Protobuf imports by the name of the reference."""
    money = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
    order = (
        'syntax = "proto3"; package shop; import "money.proto"; message Order { Money price = 1; }'
    )
    assert (
        schemas("register", f"money-{subject}", "-", "--type", "protobuf", given=money).exit_code
        == 0
    )
    missing = schemas("register", subject, "-", "--type", "protobuf", given=order)
    assert missing.exit_code == 1
    reference = f"money.proto=money-{subject}:1"
    finished = schemas(
        "register", subject, "-", "--type", "protobuf", "--reference", reference, given=order
    )
    assert finished.exit_code == 0, finished.errors
    found = as_json(schemas("get", subject, "--json"))
    assert found["references"] == [
        {"name": "money.proto", "subject": f"money-{subject}", "version": 1}
    ]


def test_every_command_prints_json(schemas: Command, subject: str) -> None:
    """Programs read what people see."""
    registered = as_json(schemas("register", subject, "-", "--type", "avro", "--json", given=ORDER))
    assert (registered["subject"], registered["version"]) == (subject, 1)
    checked = as_json(schemas("check", subject, "-", "--type", "avro", "--json", given=ORDER))
    assert checked == {"subject": subject, "is_compatible": True, "messages": []}
    assert as_json(schemas("config", "--json"))["level"] == "BACKWARD"
    assert as_json(schemas("mode", "--json"))["mode"] == "READWRITE"
    assert as_json(schemas("diff", subject, "1", "--json"))["diff"] == []
    assert json.loads(as_json(schemas("get", subject, "--json"))["schema"])["name"] == "Order"


@pytest.mark.parametrize(
    ("schema_file", "line"),
    [
        (("order.avsc", ORDER), {"n": 7}),
        (
            ("order.json", '{"type": "object", "required": ["n"]}'),
            {"n": 7, "deep": {"list": [None, "ä"]}},
        ),
        (
            (
                "order.proto",
                'syntax = "proto3"; message Order { int32 n = 1; repeated string tags = 2; }',
            ),
            {"n": 7, "tags": ["a"]},
        ),
    ],
)
def test_records_go_in_by_a_schema_and_come_out_as_json(
    tidelog: Command,
    topic: str,
    tmp_path: Path,
    schema_file: tuple[str, str],
    line: dict[str, object],
) -> None:
    """By a file, then by its subject, then from the lines that consume printed."""
    file = tmp_path / schema_file[0]
    file.write_text(schema_file[1])
    for named in (str(file), f"{topic}-value"):
        assert tidelog("produce", topic, "--schema", named, given=json.dumps(line)).exit_code == 0
    found = tidelog("consume", topic, "-B", "-e", "--verbose")
    assert [json.loads(each) for each in found.lines] == [line, line]
    assert f"version 1 of {topic}-value, " in found.errors
    rows = tidelog("consume", topic, "-B", "-e", "--json").output
    assert [json.loads(each)["value"] for each in rows.splitlines()] == [line, line]
    assert (
        tidelog("produce", topic, "--json", "--schema", f"{topic}-value", given=rows).errors
        == "2 records acknowledged\n"
    )


def test_without_a_registry_consume_prints_the_bytes(
    tidelog: Command, bootstrap: str, topic: str
) -> None:
    """Nobody is asked who was not named."""
    tidelog("schemas", "register", f"{topic}-value", "-", "--type", "avro", given=ORDER)
    tidelog("produce", topic, "--schema", f"{topic}-value", given='{"n": 7}')
    found = run(["consume", topic, "-B", "-e"], bootstrap=bootstrap)
    assert found.output.startswith("\0\0")
    assert found.errors == "1 record\n"


def test_a_line_that_does_not_fit_is_told_with_its_number(tidelog: Command, topic: str) -> None:
    """The lines before it were sent."""
    tidelog("schemas", "register", f"{topic}-value", "-", "--type", "avro", given=ORDER)
    refused = tidelog(
        "produce", topic, "--schema", f"{topic}-value", given='{"n": 1}\n{"n": "x"}\n'
    )
    assert refused.exit_code == 1
    assert "line 2 has a value that does not fit schema id" in refused.errors
    assert "$.n: int is expected, not text; the line before it was sent" in refused.errors


def test_top_shows_the_registry(tidelog: Command, registry: RegistryProcess, topic: str) -> None:
    """Its figures come from its metrics page."""
    tidelog("schemas", "register", f"{topic}-value", "-", "--type", "avro", given=ORDER)
    found = as_json(tidelog("top", "--json", "-n", "0.2"))["registry"]
    assert found["address"] == registry.url
    assert (found["is_writer"], found["subjects"] > 0, found["schemas"] > 0) == (True, True, True)
