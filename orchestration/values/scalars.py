"""Reads a decimal, a time or bytes from a JSON value, for which JSON has no type of its own.

Decides which texts and numbers are valid, and their values in an Arrow column. The accepted formats
are few and unambiguous. They do not depend on a host's time zone, on today's date or on a list of
zone names, so that a replay gives the same row. ``rule`` lists them with examples. Invariant: a
value is either refused, or has the same value in the column, whichever code reads it.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import (
    ROUND_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
)
from typing import Any, Literal, get_args

from pyspark.sql import types

from orchestration.values.times import EPOCH, FIRST_US, LAST_US, MICROSECOND

Rounding = Literal["half_up", "half_even", "down"]
EpochUnit = Literal["s", "ms", "us", "ns"]
DecimalForm = Literal["plain", "base64"]
ROUNDINGS: Mapping[Rounding, str] = {
    "half_up": ROUND_HALF_UP,
    "half_even": ROUND_HALF_EVEN,
    "down": ROUND_DOWN,
}
UNITS_PER_SECOND: Mapping[EpochUnit, int] = {
    "s": 1,
    "ms": 1_000,
    "us": 1_000_000,
    "ns": 1_000_000_000,
}
ROUNDING_KEY, EPOCH_UNIT_KEY, DECIMALS_KEY = (
    "tidelog.rounding",
    "tidelog.epoch_unit",
    "tidelog.decimals",
)
"""Keys in a field's metadata that say how its values are read."""
DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
DAY = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
CLOCK = r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
ZONE = r" ?(Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"
DATE_TEXT = re.compile(DAY, re.ASCII)
LOCAL_TEXT = re.compile(f"{DAY}(?:[T ]{CLOCK})?", re.ASCII)
ZONED_TEXT = re.compile(f"{DAY}(?:[T ]{CLOCK}(?:{ZONE})?)?", re.ASCII)
BASE64_TEXT = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII
)
MAX_OFFSET = timedelta(hours=18)
US_PER_SECOND = 1_000_000
FIRST_DAY = date(1970, 1, 1).toordinal()
NOT_A_TIME = ": a time is written 2026-01-31T12:00:00Z"
NOT_A_LOCAL_TIME = ": a time without zone is written 2026-01-31T12:00:00"
NOT_A_DAY = ": a day is written 2026-01-31"
BEYOND_YEARS = ": its year is not one of 1 to 9999"
NOT_UNSCALED = ": with decimals='base64' it is the base64 of its unscaled bytes"
TOO_FINE = ": it has more digits behind the point, and the topic declares no rounding"


class MisfitError(ValueError):
    """A value does not fit its field.

    The text is the end of a sentence that begins with the field's name.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Declared ways to read values in addition to their types, such as the unit of times."""

    rounding: Rounding | None = None
    epoch_unit: EpochUnit | None = None
    decimals: DecimalForm | None = None

    def __post_init__(self) -> None:
        for name, given, known in (
            ("rounding", self.rounding, Rounding),
            ("epoch_unit", self.epoch_unit, EpochUnit),
            ("decimals", self.decimals, DecimalForm),
        ):
            if given is not None and given not in get_args(known):
                raise ValueError(
                    f"there is no {name} {given!r}: it is one of {', '.join(get_args(known))}"
                )

    def declared_in(self, fields: types.StructType) -> types.StructType:
        """Return ``fields`` with this reading stored in the metadata of each field."""
        given = (
            (ROUNDING_KEY, self.rounding),
            (EPOCH_UNIT_KEY, self.epoch_unit),
            (DECIMALS_KEY, self.decimals),
        )
        noted = {key: value for key, value in given if value is not None}
        if not noted:
            return fields
        return types.StructType(
            [
                types.StructField(one.name, one.dataType, one.nullable, {**one.metadata, **noted})
                for one in fields
            ]
        )


def reading_of(field: types.StructField) -> Reading:
    """Return the ``Reading`` that is declared for ``field``."""
    noted = field.metadata
    return Reading(
        rounding=noted.get(ROUNDING_KEY),
        epoch_unit=noted.get(EPOCH_UNIT_KEY),
        decimals=noted.get(DECIMALS_KEY),
    )


def decimal_reader(
    kind: types.DecimalType, reading: Reading, fault: str
) -> Callable[[Any], Decimal]:
    """Return a function that reads numbers and texts as ``kind``.

    ``fault`` is the text for invalid values.
    """
    if reading.decimals == "base64":
        return _unscaled_reader(kind, fault)
    step = Decimal(1).scaleb(-kind.scale)
    mode = ROUND_DOWN if reading.rounding is None else ROUNDINGS[reading.rounding]
    exact = Context(
        prec=kind.precision,
        rounding=mode,
        traps=[InvalidOperation, *([Inexact] if reading.rounding is None else [])],
    )

    def read(value: Any) -> Decimal:
        if type(value) is str:
            if DECIMAL_TEXT.fullmatch(value) is None:
                raise MisfitError(fault)
            value = Decimal(value)
        elif type(value) is not int and type(value) is not Decimal:
            raise MisfitError(fault)
        try:
            return Decimal(value).quantize(step, context=exact)
        except Inexact:
            raise MisfitError(fault + TOO_FINE) from None
        except InvalidOperation:
            raise MisfitError(fault) from None

    return read


def _unscaled_reader(kind: types.DecimalType, fault: str) -> Callable[[Any], Decimal]:
    """Return a function that reads decimals in the JSON format of Connect's logical type Decimal.

    A value is the unscaled integer in two's complement, big-endian, in base64. The scale is that of
    the declared type, because the value does not contain it.
    """
    end, exact = 10**kind.precision, Context(prec=kind.precision)

    def read(value: Any) -> Decimal:
        if type(value) is not str or not value or BASE64_TEXT.fullmatch(value) is None:
            raise MisfitError(fault + NOT_UNSCALED)
        number = int.from_bytes(b64decode(value), "big", signed=True)
        if not -end < number < end:
            raise MisfitError(fault)
        return Decimal(number).scaleb(-kind.scale, exact)

    return read


def timestamp_reader(reading: Reading, fault: str) -> Callable[[Any], int]:
    """Return a function that reads times as microseconds since 1970.

    A time is a text, or a number of the declared unit since 1970.
    """
    per_second = UNITS_PER_SECOND[reading.epoch_unit or "s"]

    def read(value: Any) -> int:
        if type(value) is str:
            return _time_us(ZONED_TEXT.fullmatch(value), fault, NOT_A_TIME)
        if type(value) is not int:
            raise MisfitError(fault)
        time_us = value * US_PER_SECOND // per_second
        if not FIRST_US <= time_us <= LAST_US:
            raise MisfitError(fault + BEYOND_YEARS + _unit_hint(value, per_second))
        return time_us

    return read


def _unit_hint(value: int, per_second: int) -> str:
    """Return a hint at a finer unit in which ``value`` would be a valid time, or ``""``."""
    names = {1_000: "milliseconds", 1_000_000: "microseconds", 1_000_000_000: "nanoseconds"}
    finer = [
        name
        for unit, name in names.items()
        if unit > per_second and FIRST_US <= value * US_PER_SECOND // unit <= LAST_US
    ]
    return f" (epoch {finer[0]}?)" if finer else ""


def read_local_time(value: Any, fault: str) -> int:
    """Parse a time without a zone as microseconds since 1970."""
    return _time_us(
        LOCAL_TEXT.fullmatch(value) if type(value) is str else None, fault, NOT_A_LOCAL_TIME
    )


def read_day(value: Any, fault: str) -> int:
    """Parse a date as days since 1970."""
    found = DATE_TEXT.fullmatch(value) if type(value) is str else None
    if found is None:
        raise MisfitError(fault + NOT_A_DAY)
    try:
        return date(*map(int, found.groups())).toordinal() - FIRST_DAY
    except ValueError:
        raise MisfitError(fault + NOT_A_DAY) from None


def read_base64(value: Any, fault: str) -> bytes:
    """Decode a text in base64."""
    if type(value) is not str or BASE64_TEXT.fullmatch(value) is None:
        raise MisfitError(f"{fault}: bytes are written in base64")
    return b64decode(value)


def _time_us(found: re.Match[str] | None, fault: str, advice: str) -> int:
    if found is None:
        raise MisfitError(fault + advice)
    year, month, day, hour, minute, second, fraction, *zone = found.groups()
    try:
        local = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=UTC,
        )
    except ValueError:
        raise MisfitError(fault + (BEYOND_YEARS if int(year) == 0 else advice)) from None
    offset = _offset(zone[0]) if zone and zone[0] else timedelta()
    if offset is None:
        raise MisfitError(fault + advice)
    time_us = (local - EPOCH - offset) // MICROSECOND + int((fraction or "0")[:6].ljust(6, "0"))
    if not FIRST_US <= time_us <= LAST_US:
        raise MisfitError(fault + BEYOND_YEARS)
    return time_us


def _offset(zone: str) -> timedelta | None:
    """Return a zone's offset from UTC, or None if the offset is not valid."""
    if zone[0] not in "+-":
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if int(digits[2:]) >= 60 or offset > MAX_OFFSET:
        return None
    return -offset if zone[0] == "-" else offset
