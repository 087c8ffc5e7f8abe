"""Makes hostile JSON, and judges it independently by ``json.loads``, in few words.

It works for the schema of ``FIELDS`` only.
"""

import json
import random
from typing import Any

DDL = "id BIGINT NOT NULL, ratio DOUBLE, name STRING, is_open BOOLEAN"
NESTED_DDL = DDL + ", tags ARRAY<STRING>, place STRUCT<city: STRING, level: INT NOT NULL>"
TOKENS = (
    *(
        "1",
        "0",
        "-1",
        "-0",
        "01",
        "1.0",
        "1e3",
        "1E400",
        "-1e400",
        "1e-400",
        "9223372036854775807",
        "9223372036854775808",
        "1" * 400,
    ),
    *(
        '""',
        '"a"',
        '"5"',
        '"NaN"',
        r'"\u00e4\"\\"',
        r'"\ud800"',
        r'"\ud83d\ude00"',
        '"}{"',
        '"]]]"',
        '"a\tb"',
        r'"\x"',
        "'a'",
    ),
    *(
        "true",
        "false",
        "null",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "undefined",
        "",
        "{}",
        "[]",
        '["a"]',
        "[1]",
        '{"city": "x"}',
    ),
    *(
        '{"city": 1, "level": 2}',
        '{"city": "x", "level": 2}',
        '{"level": null}',
        '{"level": 1, "level": 2}',
        '["a", null]',
        '[["a"]]',
    ),
)
TAILS = (
    "",
    "",
    "",
    " ",
    "\n",
    "\t \r\n",
    " x",
    "]]]",
    "}",
    "{}",
    '{"id": 2}',
    "\n{}",
    ",",
    "null",
    "//",
    "\x00",
    "\ufeff",
    " 1",
    '""',
)
HEADS = ("", "", "", "", " ", "\n", "\ufeff", "[", "x", "null", "{}", ",")
PIECES = '{}[]",:.eE+-0123456789 \\utrfn\n\x00ä'
GOOD = {
    "id": 7,
    "ratio": 1.5,
    "name": "n",
    "is_open": True,
    "tags": ["a", "b"],
    "place": {"city": "c", "level": 3},
}


def hostile_value(rng: random.Random) -> bytes | None:
    """Return a value. Most are damaged in one way, some in several, some not at all."""
    fields = {
        name: json.dumps(value)
        for name, value in GOOD.items()
        if name == "id" or rng.random() < 0.7
    }
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        fields[rng.choice((*GOOD, "unknown"))] = rng.choice(TOKENS)
    members = [f'"{name}": {token}' for name, token in fields.items()]
    if rng.random() < 0.1:
        members.append(f'"{rng.choice((*GOOD, "unknown"))}": {rng.choice(TOKENS)}')
    if rng.random() < 0.1:
        members.pop(0)
    text = "{" + rng.choice((", ", ",", " ,\n")).join(members) + "}"
    if rng.random() < 0.3:
        text = rng.choice(HEADS) + text + rng.choice(TAILS)
    if rng.random() < 0.2:
        place = rng.randrange(len(text) + 1)
        text = (
            text[:place] + rng.choice(("", rng.choice(PIECES))) + text[place + rng.randrange(2) :]
        )
    value = text.encode()
    if rng.random() < 0.02:
        value = rng.choice(
            (
                None,
                b"",
                b"\xff" + value,
                value[:-1] + b'\xed\xa0\x80"}',
                value.decode().encode("utf-16"),
            )
        )  # type: ignore[assignment]
    return value


class _Twice(dict[str, Any]):
    twice: set[str]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = _Twice(pairs)
    names = [name for name, _ in pairs]
    found.twice = {name for name in names if names.count(name) > 1}
    return found


def _constant(text: str) -> Any:
    raise ValueError(text)


def is_fit(value: bytes | None, *, is_nested: bool) -> bool:
    """Return whether the value fits ``NESTED_DDL`` or ``DDL``.

    It fits if ``json.loads`` reads it and its types are the declared ones.
    """
    if value is None:
        return False
    try:
        found = json.loads(value.decode(), object_pairs_hook=_pairs, parse_constant=_constant)
    except ValueError:
        return False
    if type(found) is not _Twice or not _is_type(found.get("id"), "BIGINT"):
        return False
    kinds = {"id": "BIGINT", "ratio": "DOUBLE", "name": "STRING", "is_open": "BOOLEAN"}
    kinds |= {"tags": "TAGS", "place": "PLACE"} if is_nested else {}
    return not found.twice & set(kinds) and all(
        found.get(name) is None or _is_type(found[name], kind) for name, kind in kinds.items()
    )


def _is_type(value: Any, kind: str) -> bool:
    match kind:
        case "BIGINT" | "INT":
            bits = 63 if kind == "BIGINT" else 31
            return type(value) is int and -(2**bits) <= value < 2**bits
        case "DOUBLE":
            return type(value) in (int, float) and abs(value) <= 1.7976931348623157e308
        case "STRING":
            return type(value) is str and not any("\ud800" <= one <= "\udfff" for one in value)
        case "BOOLEAN":
            return value is True or value is False
        case "TAGS":
            return type(value) is list and all(
                one is None or _is_type(one, "STRING") for one in value
            )
    is_object = type(value) is _Twice and not value.twice & {"city", "level"}
    return (
        is_object
        and _is_type(value.get("level"), "INT")
        and (value.get("city") is None or _is_type(value["city"], "STRING"))
    )
