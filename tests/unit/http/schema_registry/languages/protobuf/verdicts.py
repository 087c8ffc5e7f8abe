"""Small files and what protoc says of them. ``verdicts.txt`` has one in a line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DESCRIPTOR = 'import "google/protobuf/descriptor.proto";'
OPTION_TYPES = """
message T {
  int32 i = 1; string s = 2; repeated int32 r = 3; T t = 4; repeated T ts = 5;
  map<string, int32> m = 6; E e = 7; bytes b = 8; bool o = 9; float f = 10; double d = 11;
  uint64 u = 12; oneof q { int32 q1 = 13; string q2 = 14; } repeated E es = 15;
  fixed32 x = 16; sint32 si = 17;
}
enum E { Z = 0; Y = 1; }
extend google.protobuf.MessageOptions {
  T t = 50000; int32 i = 50001; repeated int32 ri = 50002; string s = 50003; E e = 50004;
  bool b = 50005; float f = 50006; repeated T rt = 50007; bytes y = 50008; uint64 u = 50009;
  double d = 50010;
}
message A { option %s; }
"""
PROTO2_OPTION_TYPES = """
message T {
  required int32 i = 1; extensions 100 to 200; optional group G = 2 { optional int32 x = 1; }
  optional E e = 3; repeated E es = 4;
}
enum E { Z = 0; Y = 1; }
extend T { optional int32 x = 100; repeated string xs = 101; optional T xt = 102; }
message S { extend T { optional int32 in = 103; } }
extend google.protobuf.MessageOptions {
  optional T t = 50000; optional group H = 50001 { optional int32 x = 1; }
}
message A { option %s; }
"""
ANY_OPTION_TYPES = """
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto";
extend google.protobuf.MessageOptions { google.protobuf.Any a = 50000; }
message T { int32 i = 1; }
message A { option %s; }
"""
HEADS = {
    "PROTO3": 'syntax = "proto3"; %s',
    "PROTO2": 'syntax = "proto2"; %s',
    "EDITION_2023": 'edition = "2023"; %s',
    "EDITION_2024": 'edition = "2024"; %s',
    "OPTIONS": f'syntax = "proto3"; {DESCRIPTOR} {OPTION_TYPES}',
    "PROTO2_OPTIONS": f'syntax = "proto2"; {DESCRIPTOR} {PROTO2_OPTION_TYPES}',
    "ANY_OPTIONS": f'syntax = "proto3"; {DESCRIPTOR} {ANY_OPTION_TYPES}',
}
"""What stands around the lines of a section."""

DEFAULTS = {
    "int32": ["1", "-1", "0x10", "010", "-0", "- 1"],
    "uint32": ["1", "2147483648", "0x10", "010"],
    "int64": [
        "1",
        "-1",
        "2147483648",
        "-2147483649",
        "0x10",
        "010",
        "4294967296",
        "-9223372036854775808",
        "-0",
        "- 1",
    ],
    "uint64": ["1", "2147483648", "0x10", "010", "4294967296"],
    "float": [
        "1",
        "-1",
        "1.0",
        "inf",
        "-nan",
        "2147483648",
        "-2147483649",
        "0x10",
        "010",
        "4294967296",
        "18446744073709551616",
        "-9223372036854775808",
        "1e5",
        "-0",
        "- 1",
    ],
    "double": [
        "1",
        "-1",
        "1.0",
        "inf",
        "-nan",
        "2147483648",
        "-2147483649",
        "0x10",
        "010",
        "4294967296",
        "18446744073709551616",
        "-9223372036854775808",
        "1e5",
        "-0",
        "- 1",
    ],
    "bool": ["true"],
    "string": ['"x"', '"a" "b"'],
    "bytes": ['"x"', '"a" "b"'],
    "E": ["abc"],
}
"""Which of the values below are defaults of a type."""
DEFAULT_VALUES = [
    "1",
    "-1",
    "1.0",
    "true",
    "abc",
    '"x"',
    "inf",
    "-nan",
    "2147483648",
    "-2147483649",
    "0x10",
    "010",
    "4294967296",
    "18446744073709551616",
    "-9223372036854775808",
    "1e5",
    "-0",
    "- 1",
    "infinity",
    '"a" "b"',
    "{}",
    "[1]",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A file, and whether protoc takes it."""

    text: str
    is_valid: bool


def verdicts() -> Iterator[Verdict]:
    """Yield all files."""
    head, is_valid = "", True
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines()[1:]:
        if line.startswith("["):
            name, verdict = line.strip("[]").split()
            head, is_valid = HEADS[name], verdict == "valid"
        elif line:
            yield Verdict(text=head.replace("%s", line), is_valid=is_valid)
    for type_, accepted in DEFAULTS.items():
        for value in DEFAULT_VALUES:
            field = f"optional {type_} a = 1 [default = {value}];"
            text = f'syntax = "proto2"; enum E {{ abc = 0; }} message A {{ {field} }}'
            yield Verdict(text=text, is_valid=value in accepted)
