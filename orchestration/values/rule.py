"""The rule of JSON values as examples: accepted JSON of each type with its value, and faults.

This module decides nothing, ``strict_json`` and ``scalars`` do. The documentation shows this table.
Tests apply it in each way in which a record becomes a row: in the run process, by Spark's workers,
and in SQL over a topic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from orchestration.values.scalars import Reading

PLAIN = Reading()


@dataclass(frozen=True, slots=True)
class Example:
    """An example: a field's JSON text with its ``value`` in the column, or its ``fault``.

    In the reason of a dead letter the fault comes after the field's name.
    """

    json: str
    value: Any = None
    fault: str | None = None
    reading: Reading = PLAIN


MS, UP, UNSCALED = Reading(epoch_unit="ms"), Reading(rounding="half_up"), Reading(decimals="base64")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
_TIME = "TIMESTAMP: a time is written 2026-01-31T12:00:00Z"
_LOCAL = "TIMESTAMP_NTZ: a time without zone is written 2026-01-31T12:00:00"
_DAY = "DATE: a day is written 2026-01-31"
_FINE = "DECIMAL(12,2): it has more digits behind the point, and the topic declares no rounding"
_UNSCALED = "DECIMAL(12,2): with decimals='base64' it is the base64 of its unscaled bytes"
_YEARS = "TIMESTAMP: its year is not one of 1 to 9999"


def _refused(fault: str, *texts: str) -> tuple[Example, ...]:
    return tuple(Example(text, fault=fault) for text in texts)


RULE: Mapping[str, tuple[Example, ...]] = {
    "BOOLEAN": (Example("true", value=True), Example("null"), *_refused("BOOLEAN", '"true"', "1")),
    "INT": (
        Example("5", 5),
        Example("-2147483648", -2147483648),
        *_refused("INT", "2147483648", "5.0", "5e0", '"5"', "true"),
    ),
    "DOUBLE": (
        Example("5", 5.0),
        Example("1e3", 1000.0),
        Example("1e-400", 0.0),
        *_refused("DOUBLE", "1e400", '"5"', '"NaN"'),
    ),
    "FLOAT": (Example("0.5", 0.5), *_refused("FLOAT", "1e39", '"0.5"')),
    "STRING": (
        Example('"a"', "a"),
        Example(r'"\ud83d\ude00"', "\U0001f600"),
        *_refused("STRING", "5", "true", "{}", r'"\ud800"'),
    ),
    "DECIMAL(12,2)": (
        Example("7.5", Decimal("7.50")),
        Example('"7.50"', Decimal("7.50")),
        Example("1.5000", Decimal("1.50")),
        Example('"1e3"', Decimal("1000.00")),
        *_refused(
            "DECIMAL(12,2)",
            '"7,50"',
            '"1.234,50"',
            '",,1,,"',
            '"-,5"',
            '"\u0663"',
            '" 5"',
            '""',
            '"NaN"',
            "12345678901",
            "1e40",
            "true",
        ),
        *_refused(_FINE, "12.345", '"12.345"', "1e-9"),
        Example("12.345", Decimal("12.35"), reading=UP),
        Example("1e-9", Decimal("0.00"), reading=UP),
        Example('"AfQ="', Decimal("5.00"), reading=UNSCALED),
        Example('"/w=="', Decimal("-0.01"), reading=UNSCALED),
        Example('"1234"', Decimal("-26588.24"), reading=UNSCALED),
        *(Example(text, fault=_UNSCALED, reading=UNSCALED) for text in ("5.00", '"5.00"', '""')),
        Example('"AOjUpRAA"', fault="DECIMAL(12,2)", reading=UNSCALED),
    ),
    "TIMESTAMP": (
        Example('"2026-01-31T12:00:00Z"', NOON),
        Example('"2026-01-31 12:00"', NOON),
        Example('"2026-01-31T14:00:00+02:00"', NOON),
        Example('"2026-01-31T12:00:00.0000009Z"', NOON),
        Example('"2026-01-31"', NOON.replace(hour=0)),
        Example("1769860800", NOON),
        Example("1769860800000", NOON, reading=MS),
        Example('"2026-01-31T12:00:00Z"', NOON, reading=MS),
        *_refused(
            _TIME,
            '"10:30"',
            '"2026"',
            '"2026-01"',
            '"2026-01-31T12:00:00 PST"',
            '"2026-01-31T12:00:00 Europe/Berlin"',
            '"2026-02-30"',
        ),
        *_refused(_YEARS, '"0000-01-01T00:00:00Z"', '"9999-12-31T23:00:00-02:00"'),
        *_refused(f"{_YEARS} (epoch milliseconds?)", "1769860800000"),
        *_refused("TIMESTAMP", "1769860800.5", "true"),
    ),
    "TIMESTAMP_NTZ": (
        Example('"2026-01-31T12:00:00"', NOON.replace(tzinfo=None)),
        *_refused(_LOCAL, '"2026-01-31T12:00:00Z"', '"10:30"', '"2026"', "1769860800"),
    ),
    "DATE": (
        Example('"2026-01-31"', date(2026, 1, 31)),
        *_refused(_DAY, '"2026-01-31T12:00:00Z"', '"20260131"', '"2026-01"', '"2026"', "20484"),
    ),
    "BINARY": (
        Example('"YWI="', b"ab"),
        *_refused("BINARY: bytes are written in base64", '"YWI"', '"a b="', "5"),
    ),
    "ARRAY<INT>": (Example("[1, null]", [1, None]), *_refused("ARRAY<INT>", "1", "{}")),
    "MAP<STRING,INT>": (Example('{"k": 1}', [("k", 1)]), *_refused("MAP<STRING,INT>", "[]", '"k"')),
    "STRUCT<n: INT>": (
        Example('{"n": 1, "other": 2}', {"n": 1}),
        Example("{}", {"n": None}),
        *_refused("STRUCT<n: INT>", "[]", "1"),
    ),
}
"""The forms by type, as a schema declares it."""


def rule_table() -> str:
    """Return the rule as a table in Markdown, as the documentation shows it."""
    return "\n".join(("| type | JSON | becomes |", "| --- | --- | --- |", *_lines()))


def _lines() -> Iterator[str]:
    for kind, forms in RULE.items():
        for form in forms:
            declared = "".join(
                f", with `{name}`"
                for name in (
                    _declared("rounding", form.reading.rounding),
                    _declared("epoch_unit", form.reading.epoch_unit),
                    _declared("decimals", form.reading.decimals),
                )
                if name
            )
            yield (
                f"| `{kind}`{declared} | `{form.json}` |"
                f" {'null' if form.json == 'null' else _outcome(form)} |"
            )


def _declared(name: str, value: str | None) -> str:
    return f'{name}="{value}"' if value else ""


def _outcome(form: Example) -> str:
    return f"`{form.value}`" if form.fault is None else f"dead letter: field is not {form.fault}"
