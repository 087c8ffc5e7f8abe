"""Commands print tables, JSON, questions and errors."""

import json
from io import BytesIO

import click
import pytest
from click.testing import CliRunner

from log_service.cli.explain import explain
from log_service.cli.output import (
    aligned,
    counted,
    json_text,
    print_result,
    print_rows,
    readable,
    write_records,
)
from log_service.cli.running import on_trio
from log_service.cli.standard_input import confirm
from log_service.common.errors import ErrorCode, KafkaError, StorageError


class Terminal(BytesIO):
    """Output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "hostile", ["\x1b]0;title\x07", "\x1b[2J", "\x9b2J", "\r", "\x08", "\x00", "\u202e", "\x7f"]
)
def test_a_terminal_is_told_no_control_character_of_a_record(hostile: str) -> None:
    terminal, pipe, content = Terminal(), BytesIO(), f"a\t{hostile}b\n".encode() + b"\xff\x9b\n"
    write_records(terminal, content)
    write_records(pipe, content)
    assert pipe.getvalue() == content
    shown = terminal.getvalue().decode()
    assert (shown.startswith("a\t\\"), shown.endswith("b\n\\xff\\x9b\n")) == (True, True)
    assert "".join(shown.split()).isprintable()


ROWS = [
    {"name": "a", "count": 5, "tags": ["x", "y"]},
    {"name": "long name", "count": 1_000, "tags": None},
]


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    assert aligned(ROWS, ["name", "count", "tags"]).splitlines() == [
        "NAME       COUNT  TAGS",
        "a              5  x,y",
        "long name   1000  -",
    ]


def test_lines_end_without_blanks() -> None:
    assert all(line == line.rstrip() for line in aligned(ROWS, ["count", "name"]).splitlines())


def test_a_cell_is_readable() -> None:
    assert [readable(value) for value in (None, True, False, [1, 2], "x", 0)] == [
        "-",
        "yes",
        "no",
        "1,2",
        "x",
        "0",
    ]


def test_json_has_every_field_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ["name"], as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    print_rows([], ["name"], as_json=True)
    assert json.loads(capsys.readouterr().out) == []


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], ["name"], as_json=False, empty="there are no topics")
    assert capsys.readouterr().out == "there are no topics\n"


HOSTILE = "g\x1b[2J\x9b31m\n\u2028\u202eok"
"""A name that any client may give to its group: it clears the screen, begins lines and turns what
follows around.
"""


def test_names_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": HOSTILE, "tags": [HOSTILE]}]
    for as_json in (False, True):
        print_rows(rows, ["name", "tags"], as_json=as_json)
        print_result(f"deleted {HOSTILE}", rows, as_json=as_json)
        printed = capsys.readouterr().out
        assert all(line.isprintable() for line in printed.split("\n"))
        assert "\\x1b[2J" in printed or "\\u001b[2J" in printed
    assert json.loads(json_text(rows)) == rows


def test_letters_of_all_languages_stay() -> None:
    assert readable("gruppe-ü-日本") == "gruppe-ü-日本"
    assert "日本" in json_text(["日本"])


def test_counts_have_their_noun() -> None:
    assert [counted(number, "record") for number in (0, 1, 2_000)] == [
        "0 records",
        "1 record",
        "2,000 records",
    ]


def test_a_bare_code_becomes_a_sentence_that_says_what_to_do() -> None:
    error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "group 'g': GROUP_ID_NOT_FOUND")
    assert (
        explain(error)
        == "group 'g': there is no such group; see: tidelog groups list (GROUP_ID_NOT_FOUND)"
    )


def test_a_text_that_says_what_is_wrong_stays() -> None:
    assert (
        explain(KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "topic a already exists"))
        == "topic a already exists"
    )
    assert "at most 249 ASCII letters" in explain(KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION))
    assert explain(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)) == "UNKNOWN_SERVER_ERROR"
    assert explain(StorageError("the directory is in use")) == "the directory is in use"


def test_an_error_of_the_system_names_the_file() -> None:
    assert explain(PermissionError(13, "Permission denied", "/data")) == "/data: Permission denied"
    assert explain(OSError(28, "No space left on device")) == "No space left on device"


@click.command()
@on_trio
async def ask() -> None:
    await confirm("Delete it?", "nothing was deleted")
    click.echo("deleted")


@pytest.mark.parametrize(
    ("response", "said", "exit_code"),
    [
        ("y\n", "deleted", 0),
        ("n\n", "Error: nothing was deleted", 1),
        ("", "there was no response; --yes does not ask", 1),
    ],
)
def test_a_question_takes_yes_no_and_silence(response: str, said: str, exit_code: int) -> None:
    result = CliRunner().invoke(ask, input=response)
    assert said in result.output
    assert result.exit_code == exit_code
