"""Small valid and invalid files: we refuse what protoc refuses, and say where and why."""

import re
from pathlib import Path

import pytest

from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.protobuf import PROTOBUF
from tests.unit.http.schema_registry.languages.protobuf import compiler
from tests.unit.http.schema_registry.languages.protobuf.verdicts import verdicts

PLACE = re.compile(r"line \d+, column \d+: \S")


def refusal(text: str) -> str:
    """Return why we refuse a file, or nothing."""
    try:
        PROTOBUF.parse(text)
    except InvalidSchemaError as error:
        return str(error)
    return ""


def test_files_are_refused_as_the_table_says() -> None:
    """Every invalid file is refused with its place, and no valid one."""
    wrong = []
    for verdict in verdicts():
        sentence = refusal(verdict.text)
        is_placed = bool(PLACE.match(sentence)) or not sentence
        if bool(sentence) is verdict.is_valid or not is_placed:
            wrong.append((verdict.text, sentence))
    assert wrong == []


def test_the_table_says_what_protoc_says(tmp_path: Path) -> None:
    """The compiler refuses just the files of the table that are invalid."""
    wrong = []
    for verdict in verdicts():
        sentence = compiler.refusal(verdict.text, tmp_path)
        if bool(sentence) is verdict.is_valid:
            wrong.append((verdict.text, sentence))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'syntax = "proto3";\nmessage A {\n  int32 a = 0;\n}',
            "line 3, column 13: the numbers of fields begin at 1",
        ),
        (
            "message A {\n  int32 a = 1;\n}",
            "line 2, column 3: the field a needs a label in proto2: optional, required or repeated",
        ),
        ('syntax = "proto3"; message A { B b = 1; }', "line 1, column 32: B is not defined"),
        (
            'syntax = "proto3"; package a.a; message A { a.C c = 1; }',
            "line 1, column 45: a.C means a.a.C here",
        ),
        (
            'syntax = "proto3"; message A { google.protobuf.Any a = 1; }',
            "line 1, column 32: google.protobuf.Any is not defined",
        ),
        (
            'syntax = "proto3"; import "x.proto";',
            "line 1, column 20: the import 'x.proto' is missing: add a reference with this name",
        ),
        (
            'syntax = "proto3"; message A {',
            "line 1, column 31: expected the type of a field, found the end",
        ),
        (
            'syntax = "proto4";',
            "line 1, column 10: syntax 'proto4' is unknown: there are proto2 and proto3",
        ),
        ('message A { "x }', "line 1, column 13: the string does not end on its line"),
        ("/* message", "line 1, column 1: the comment does not end"),
        (
            "message é {}",
            "line 1, column 9: the character '\\xe9' may stand in strings and comments only",
        ),
        ('option java_package = "\\q";', "line 1, column 24: \\q is not an escape"),
        (
            "enum A { X = 1; Y = 1; }",
            "line 1, column 17: Y and X are both 1: if this is meant, set option allow_alias",
        ),
        ("option deprecated = 1;", "line 1, column 21: deprecated takes true or false"),
        (
            "option (x) = 1;",
            "line 1, column 8: the option (x) is not defined in this file or an import",
        ),
    ],
)
def test_sentences_name_the_place_and_the_reason(text: str, sentence: str) -> None:
    """A refusal says line and column, the thing, and what to do."""
    assert refusal(text).startswith(sentence)


def test_a_dependency_is_named_by_its_path() -> None:
    """An error in a referenced file has the path of that file before its place."""
    with pytest.raises(InvalidSchemaError, match=r"^lib/a\.proto: line 1, column 9: expected"):
        PROTOBUF.parse('import "lib/a.proto";', [NamedSchema(name="lib/a.proto", text="message ;")])
