"""Draws JSON texts of numbers and times at the edges of the column types' ranges."""

import json
import random

OTHERS = (
    *(
        '"7,50"',
        '",,1,,"',
        '"\u0663"',
        '"10:30"',
        '"2026"',
        '"2026-01"',
        '"1e5"',
        '" 1"',
        '"x"',
        '"NaN"',
        "null",
        "true",
        "{}",
        "[]",
    ),
    *(
        "1700000000000",
        "1700000000",
        "-62135596800",
        "-62135596801",
        "253402300799",
        "253402300800",
        "253402300799999",
    ),
    *("9223372036854775807", "9223372036854775808", '"YWI="', '"YWI"'),
)
ZONES = (
    "",
    "Z",
    "Z",
    "Z",
    " Z",
    "z",
    "+02:00",
    "-0230",
    "+19:00",
    "+18:00",
    "+18:01",
    "PST",
    " UTC",
    "UTC",
    "GMT",
    "+02",
    "+2",
    "Europe/Berlin",
)
FRACTIONS = ("", ".1", ".123456", ".1234567", ".", ".123456789", ".1234567890")


def token(rng: random.Random) -> str:
    """Return a number, a number as a text, a time, or something else."""
    kind = rng.random()
    if kind < 0.3:
        return _number(rng)
    if kind < 0.45:
        return json.dumps(rng.choice(("", "+")) + _number(rng))
    return json.dumps(_time(rng)) if kind < 0.8 else rng.choice(OTHERS)


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(count))


def _number(rng: random.Random) -> str:
    whole = rng.choice(
        (
            "0",
            _digits(rng, 1),
            _digits(rng, rng.randrange(1, 13)),
            _digits(rng, rng.randrange(1, 42)),
        )
    )
    parts = (
        "",
        "." + _digits(rng, rng.randrange(4)),
        "." + _digits(rng, rng.randrange(40)),
        "." + "0" * rng.randrange(40),
    )
    return (
        rng.choice(("", "-"))
        + whole
        + rng.choice(parts)
        + rng.choice(("", "", f"e{rng.randrange(-45, 45)}", "E+5", "e400"))
    )


def _time(rng: random.Random) -> str:
    year = rng.choice(("2026", "0000", "0001", "9999", "10000", "1582", "1969", "26"))
    day = f"{year}-{rng.choice(('01', '1', '12', '13', '10'))}-{rng.choice(('01', '31', '29', '30', '5', '00'))}"
    if rng.random() < 0.2:
        return day
    clock = (
        rng.choice(("05", "5", "24", "23"))
        + rng.choice(("", ":00", ":5", ":59", ":60"))
        + rng.choice(("", ":00", ":00", ":7", ":60"))
    )
    return day + rng.choice("T t") + clock + rng.choice(FRACTIONS) + rng.choice(ZONES)
