"""Makes pairs of JSON schemas of draft 7, and values that are likely to be valid for one of them.

The schemas keep to the rules of Confluent's that tell the truth.
"""

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

NAMES = ("a", "b", "c")
STRINGS = ("", "a", "b", "ab", "abc", "aaaa")
NUMBERS = (-2, -1, 0, 0.5, 1, 2, 2.5, 3, 4, 6, 8)
_NUMBER_LIMITS: dict[str, list[Any]] = {
    "minimum": [-1, 0, 2],
    "maximum": [2, 3, 6],
    "exclusiveMinimum": [-1, 1],
    "exclusiveMaximum": [3, 8],
    "multipleOf": [0.5, 1, 2, 4],
}
LIMITS: dict[str, dict[str, list[Any]]] = {
    "string": {"minLength": [0, 1, 2], "maxLength": [1, 2, 4], "pattern": ["^a", "b"]},
    "number": _NUMBER_LIMITS,
    "integer": _NUMBER_LIMITS,
    "object": {"minProperties": [0, 1], "maxProperties": [1, 2, 3]},
    "array": {"minItems": [0, 1], "maxItems": [1, 2, 3], "uniqueItems": [True]},
}

Schema = Any
"""An object or a boolean."""


def schema(rng: random.Random, depth: int) -> Schema:
    """Return a schema."""
    kinds: list[Callable[[random.Random, int], Schema]] = [
        _typed,
        _typed,
        _enumeration,
        _constant,
        _anything,
    ]
    kinds += (
        [_objects, _objects, _objects, _arrays, _arrays, _combined, _negation, _types]
        if depth
        else []
    )
    return rng.choice(kinds)(rng, depth)


def changed(rng: random.Random, found: Schema, depth: int) -> Schema:
    """Return a schema with one change somewhere. Most changes are small, so that many are
    compatible.
    """
    if not isinstance(found, dict) or depth < 1 or rng.random() < 0.1:
        return schema(rng, max(depth, 0)) if rng.random() < 0.3 else _wrapped(rng, found)
    made = deepcopy(found)
    inner = [(made["properties"], name) for name in made.get("properties", {})]
    inner += [
        (made[key], n)
        for key in ("anyOf", "allOf", "items")
        if isinstance(made.get(key), list)
        for n in range(len(made[key]))
    ]
    inner += [
        (made, key)
        for key in ("not", "items", "additionalProperties", "additionalItems")
        if isinstance(made.get(key), dict)
    ]
    if inner and rng.random() < 0.5:
        around, at = rng.choice(inner)
        around[at] = changed(rng, around[at], depth - 1)
    else:
        _CHANGES.get(next(iter(found), ""), _change_combined)(rng, made, depth)
    return _without_unsound(made)


def value_for(rng: random.Random, found: Schema, depth: int = 4) -> Any:
    """Return a value that is likely to be valid for a schema."""
    if not isinstance(found, dict) or not depth or rng.random() < 0.05:
        return _value(rng, min(depth, 1))
    if "enum" in found:
        return rng.choice(found["enum"])
    for key in ("anyOf", "allOf"):
        if key in found:
            return value_for(rng, rng.choice(found[key]), depth)
    name = found.get("type")
    name = rng.choice(name) if isinstance(name, list) else name
    by_type: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(STRINGS),
        "number": lambda: rng.choice(NUMBERS),
        "integer": lambda: rng.choice(NUMBERS),
        "object": lambda: _object_for(rng, found, depth),
        "array": lambda: _array_for(rng, found, depth),
        "null": lambda: None,
        "boolean": lambda: True,
    }
    return found["const"] if "const" in found else by_type.get(str(name), lambda: _value(rng, 1))()


def _typed(rng: random.Random, depth: int) -> Schema:
    name = rng.choice(["string", "string", "number", "integer", "boolean", "null"])
    return {"type": name} | _some(rng, LIMITS.get(name, {}))


def _types(rng: random.Random, depth: int) -> Schema:
    return {"type": rng.sample(["string", "integer", "null", "boolean"], rng.randint(1, 3))}


def _enumeration(rng: random.Random, depth: int) -> Schema:
    return {"enum": rng.sample([*STRINGS[:4], 1, 2, None, True], rng.randint(1, 4))}


def _constant(rng: random.Random, depth: int) -> Schema:
    return {"const": rng.choice([*STRINGS[:3], 1, None])}


def _anything(rng: random.Random, depth: int) -> Schema:
    return rng.choice([True, False, {}])


def _combined(rng: random.Random, depth: int) -> Schema:
    return {
        rng.choice(["anyOf", "allOf"]): [schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    }


def _negation(rng: random.Random, depth: int) -> Schema:
    return {"not": schema(rng, depth - 1)}


def _objects(rng: random.Random, depth: int) -> Schema:
    names = rng.sample(NAMES, rng.randint(0, 3))
    made = {
        "type": "object",
        "properties": {name: schema(rng, depth - 1) for name in names},
        "required": [],
    }
    made["required"] = [name for name in names if rng.random() < 0.3]
    if (rest := _rest(rng, depth)) is not True:
        made["additionalProperties"] = rest
    if rng.random() < 0.15:
        made["dependencies"] = {"a": rng.choice([["b"], ["b", "c"], schema(rng, depth - 1)])}
    return _without_unsound(made | _some(rng, LIMITS["object"]))


def _arrays(rng: random.Random, depth: int) -> Schema:
    made: dict[str, Any] = {"type": "array"} | _some(rng, LIMITS["array"])
    if rng.random() < 0.4:
        return made | {"items": schema(rng, depth - 1)}
    made["items"] = [schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    rest = _rest(rng, depth)
    return made if rest is True else made | {"additionalItems": rest}


def _rest(rng: random.Random, depth: int) -> Schema:
    return rng.choice([True, True, False, False, False, schema(rng, depth - 1)])


def _some(rng: random.Random, choices: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: rng.choice(each) for name, each in choices.items() if rng.random() < 0.35}


def _wrapped(rng: random.Random, found: Schema) -> Schema:
    """Put a schema among others."""
    others = [schema(rng, 0) for _ in range(rng.randint(0, 1))]
    return {rng.choice(["anyOf", "anyOf", "allOf"]): [found, *others]}


def _change_typed(rng: random.Random, made: dict[str, Any], depth: int) -> None:
    """Change a limit, or something that the type alone has."""
    name = made["type"]
    if isinstance(name, list):
        made["type"] = rng.sample(
            ["string", "integer", "null", "boolean", "number"], rng.randint(1, 4)
        )
        return
    choices = LIMITS.get(name, {})
    changes: list[Callable[[], object]] = [lambda: made.update(_some(rng, choices))]
    changes += [lambda: made.pop(rng.choice([*choices, "none"]), None)]
    if name in {"integer", "number"}:
        changes.append(lambda: made.update(type=rng.choice(["integer", "number"])))
    if name == "object":
        named, rest, new = made["properties"], _rest(rng, depth), rng.choice(NAMES)
        changes += [
            lambda: named.update({new: schema(rng, depth - 1)}),
            lambda: named.pop(new, None),
        ]
        changes += [
            lambda: made.update(additionalProperties=rest),
            lambda: made.update(required=rng.sample(NAMES, rng.randint(0, 2))),
        ]
        changes += [lambda: made.update(dependencies={"a": rng.choice([["b"], ["b", "c"], []])})]
    if name == "array" and isinstance(made["items"], list):
        items, rest = made["items"], _rest(rng, depth)
        changes += [
            lambda: items.append(schema(rng, depth - 1)),
            lambda: items.pop() if len(items) > 1 else None,
        ]
        changes += [lambda: made.update(additionalItems=rest)]
    rng.choice(changes)()


def _change_enumeration(rng: random.Random, made: dict[str, Any], depth: int) -> None:
    made["enum"] = rng.sample(made["enum"], rng.randint(1, len(made["enum"])))
    if rng.random() < 0.6:
        made["enum"] = made["enum"] + [other for other in ("c", 3) if rng.random() < 0.6]


def _change_combined(rng: random.Random, made: dict[str, Any], depth: int) -> None:
    for key in ("anyOf", "allOf"):
        if key in made:
            members = made.pop(key)
            rng.shuffle(members)
            if rng.random() < 0.4:
                members = [*members, schema(rng, max(depth - 1, 0))]
            elif len(members) > 1:
                members = members[1:]
            made[key if rng.random() < 0.7 else rng.choice(["anyOf", "allOf"])] = members
            return


_CHANGES = {"type": _change_typed, "enum": _change_enumeration}


def _without_unsound(made: dict[str, Any]) -> dict[str, Any]:
    """Keep ``required`` to properties with a schema of their own, and ``additionalItems`` to lists."""
    named = made.get("properties", {})
    if "required" in made:
        made["required"] = [
            name for name in made["required"] if named.get(name, True) not in (True, {})
        ]
    if not isinstance(made.get("items"), list):
        made.pop("additionalItems", None)
    return made


def _value(rng: random.Random, depth: int) -> Any:
    choices: list[Any] = [rng.choice(STRINGS), rng.choice(NUMBERS), None, True]
    if depth:
        choices.append([_value(rng, depth - 1) for _ in range(rng.randint(0, 3))])
        choices.append(
            {name: _value(rng, depth - 1) for name in rng.sample([*NAMES, "d"], rng.randint(0, 3))}
        )
    return rng.choice(choices)


def _object_for(rng: random.Random, found: dict[str, Any], depth: int) -> Any:
    named, rest = found["properties"], found.get("additionalProperties", True)
    names = [*named, *(NAMES if rest is not False else ())]
    return {
        name: value_for(rng, named.get(name, rest), depth - 1)
        for name in names
        if rng.random() < 0.6 or name in found["required"]
    }


def _array_for(rng: random.Random, found: dict[str, Any], depth: int) -> Any:
    items = found["items"] if isinstance(found["items"], list) else [found["items"]] * 3
    rest = found.get("additionalItems", True)
    return [
        value_for(rng, each, depth - 1)
        for each in (items + ([rest] if rest is not False else []))[: rng.randint(0, 4)]
    ]
