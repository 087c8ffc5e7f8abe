"""Makes random JSON schemas, as values: whole ones of any draft, and damaged ones."""

import random
from collections.abc import Callable
from typing import Any

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
NAMES = ("a", "b", "c", "d")
PATTERNS = ("^a", "b$", "[a-c]+", r"\d")
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -2,
    2.5,
    "",
    "a",
    "bc",
    [],
    [1, "a"],
    {},
    {"a": 1},
)
ODD_VALUES: tuple[Any, ...] = (
    *VALUES,
    -1,
    1.0,
    "string",
    ["string", "string"],
    ["a", "b"],
    [{}],
    {"a": {}},
    {"a": ["b"]},
    "^(",
    "a#b",
)


def schema(rng: random.Random, draft: int, depth: int = 3) -> Any:
    """Return a valid schema of a draft, without ``$schema`` and without references."""
    if depth == 0 or rng.random() < 0.1:
        return {} if draft == 4 else rng.choice([True, False, {}])
    made: dict[str, Any] = {}
    if rng.random() < 0.8:
        made["type"] = (
            rng.choice(TYPES) if rng.random() < 0.8 else rng.sample(TYPES, rng.randint(1, 3))
        )
    for keyword in rng.sample(sorted(_MAKERS), rng.randint(0, 5)):
        since, make = _MAKERS[keyword]
        if draft >= since:
            made |= {keyword: make(rng, draft, depth)}
    return _in_draft(made, rng, draft, depth)


def damaged(rng: random.Random, draft: int) -> Any:
    """Return a schema in which one value is another one. It may still be valid."""
    made = schema(rng, draft)
    objects = [made]
    while objects and isinstance(found := rng.choice(objects), dict) and found:
        name = rng.choice(sorted(found))
        if isinstance(found[name], dict | list) and found[name] and rng.random() < 0.6:
            inner = found[name]
            objects = [
                each
                for each in (inner.values() if isinstance(inner, dict) else inner)
                if isinstance(each, dict)
            ] or [found]
            if objects != [found]:
                continue
        found[name] = rng.choice(ODD_VALUES)
        break
    return made


def _in_draft(made: dict[str, Any], rng: random.Random, draft: int, depth: int) -> dict[str, Any]:
    """Write in a draft what drafts write differently."""
    if "items" in made and draft < 2020 and rng.random() < 0.4:
        made["items"] = [schema(rng, draft, depth - 1) for _ in range(rng.randint(1, 3))]
    if "items" in made and draft == 2020 and rng.random() < 0.4:
        made["prefixItems"] = [schema(rng, draft, depth - 1) for _ in range(rng.randint(1, 3))]
    if "exclusiveMaximum" in made and draft == 4:
        made |= {"maximum": made["exclusiveMaximum"], "exclusiveMaximum": True}
    if draft == 4 and made.get("required") == []:
        del made["required"]
    if draft >= 2019:
        made.pop("dependencies", None)
    if draft == 2020:
        made.pop("additionalItems", None)
    return made


def _count(rng: random.Random, _draft: int, _depth: int) -> int:
    return rng.randint(0, 4)


def _number(rng: random.Random, _draft: int, _depth: int) -> float:
    return rng.choice([-3, 0, 2, 2.5, 7])


def _schema(rng: random.Random, draft: int, depth: int) -> Any:
    return schema(rng, draft, depth - 1)


def _schemas(rng: random.Random, draft: int, depth: int) -> list[Any]:
    return [schema(rng, draft, depth - 1) for _ in range(rng.randint(1, 3))]


def _named_schemas(rng: random.Random, draft: int, depth: int) -> dict[str, Any]:
    return {name: schema(rng, draft, depth - 1) for name in rng.sample(NAMES, rng.randint(0, 3))}


def _rest(rng: random.Random, draft: int, depth: int) -> Any:
    return rng.choice([True, False, schema(rng, draft, depth - 1)])


def _dependencies(rng: random.Random, draft: int, depth: int) -> dict[str, Any]:
    return {
        name: rng.choice([["b"], ["c", "d"], schema(rng, draft, depth - 1)])
        for name in rng.sample(NAMES, 2)
    }


Maker = Callable[[random.Random, int, int], Any]
_MAKERS: dict[str, tuple[int, Maker]] = {
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        (4, _count),
    ),
    **dict.fromkeys(("maximum", "minimum"), (4, _number)),
    "exclusiveMaximum": (4, _number),
    "exclusiveMinimum": (6, _number),
    "multipleOf": (4, lambda rng, _draft, _depth: rng.choice([1, 2, 0.5])),
    "uniqueItems": (4, lambda rng, _draft, _depth: rng.random() < 0.5),
    "pattern": (4, lambda rng, _draft, _depth: rng.choice(PATTERNS)),
    **dict.fromkeys(("title", "description"), (4, lambda rng, _draft, _depth: rng.choice(NAMES))),
    "format": (4, lambda rng, _draft, _depth: rng.choice(["date-time", "email", "uri"])),
    "default": (4, lambda rng, _draft, _depth: rng.choice(VALUES)),
    "enum": (
        4,
        lambda rng, _draft, _depth: rng.sample(["a", "b", 1, 2, None, True], rng.randint(1, 4)),
    ),
    "const": (6, lambda rng, _draft, _depth: rng.choice(VALUES)),
    "required": (4, lambda rng, _draft, _depth: rng.sample(NAMES, rng.randint(0, 2))),
    **dict.fromkeys(("not",), (4, _schema)),
    **dict.fromkeys(("contains", "propertyNames"), (6, _schema)),
    **dict.fromkeys(("if", "then", "else"), (7, _schema)),
    "items": (4, _schema),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), (4, _schemas)),
    **dict.fromkeys(("properties", "definitions"), (4, _named_schemas)),
    "patternProperties": (
        4,
        lambda rng, draft, depth: {rng.choice(PATTERNS): schema(rng, draft, depth - 1)},
    ),
    **dict.fromkeys(("additionalProperties", "additionalItems"), (4, _rest)),
    "dependencies": (4, _dependencies),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), (2019, _schema)),
    "dependentRequired": (2019, lambda rng, _draft, _depth: {"a": rng.sample(NAMES, 2)}),
    "dependentSchemas": (2019, _named_schemas),
    **dict.fromkeys(("minContains", "maxContains"), (2019, _count)),
    "$defs": (2019, _named_schemas),
}
