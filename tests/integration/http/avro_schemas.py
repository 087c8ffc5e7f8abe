"""Generated Avro schemas: most are valid, and pairs are small changes of one schema."""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMESPACES = ("a", "a.b", "c.d", "")
NAMES = ("Order", "Line", "State", "Hash", "Money", "Place", "Person", "Kind", "Code", "record")
FIELD_NAMES = ("id", "name", "state", "total", "lines", "parent", "extra")
SYMBOLS = ("NEW", "PAID", "SENT", "LOST", "x1")
TEXTS = ("", "plain", 'q"\\/\b\t\n', "größe 😀", "\u2028\x7f", "1.5", "A")
NUMBERS = (
    0,
    1,
    -7,
    2**31,
    -(2**31),
    2**63 - 1,
    0.5,
    -2.25,
    1e7,
    1.0,
    0.001,
    12345678.5,
    1e21,
    1e-5,
)
LOGICAL = (
    {"logicalType": "date"},
    {"logicalType": "decimal", "precision": 9, "scale": 2},
    {"scale": 0, "precision": 4, "logicalType": "decimal"},
    {"logicalType": "uuid"},
    {"logicalType": "timestamp-millis", "avro.java.string": "String"},
    {"logicalType": "mine"},
)
SIZES = (0, 8, 12, 16)
SCALARS: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (0, -1, 2**31 - 1),
    "long": (0, 5, 2**63 - 1, -(2**40)),
    "float": (*NUMBERS, "NaN", " 1.5 ", "-Infinity", "2"),
    "double": (*NUMBERS, "NaN", " 1.5 ", "-Infinity", "2"),
    "string": (*TEXTS, "ÿĀ"),
    "bytes": (*TEXTS, "ÿĀ"),
    "fixed": (*TEXTS, "ÿĀ"),
    "enum": SYMBOLS,
}
WEIRD: tuple[Any, ...] = (None, 3, "", "a b", [], {}, "Order", ["null"], True, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A text with the texts that it may refer to."""

    text: str
    dependencies: tuple[str, ...] = ()
    is_new: bool = True

    def question(self) -> dict[str, Any]:
        """Return the part of a question to the judge."""
        return {"text": self.text, "dependencies": list(self.dependencies), "is_new": self.is_new}


class SchemaMaker:
    """Makes schemas out of few names, so that they meet."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._known: dict[str, dict[str, Any]] = {}

    def schema(self, depth: int = 3, namespace: str = "") -> Any:
        """Return a schema as a JSON value."""
        makers = [self._primitive, self._primitive, self._named, self._reference]
        if depth > 0:
            makers += [self._record, self._record, self._array, self._map, self._union, self._enum]
        return self._rng.choice(makers)(depth - 1, namespace)

    def root(self) -> Any:
        """Return a schema that is worth a registry: most often a record."""
        if self._rng.random() < 0.75:
            return self._record(3, "")
        return self._union(2, "") if self._rng.random() < 0.5 else self.schema()

    def _maybe(self, chance: float) -> bool:
        return self._rng.random() < chance

    def value(self, depth: int = 2) -> Any:
        """Return a JSON value for a property."""
        pick = self._rng.random()
        if depth > 0 and pick < 0.15:
            return [self.value(depth - 1) for _ in range(self._rng.randint(0, 3))]
        if depth > 0 and pick < 0.3:
            return {
                self._rng.choice("bca") + self._rng.choice(["", "é"]): self.value(depth - 1)
                for _ in range(self._rng.randint(0, 3))
            }
        return self._rng.choice([*TEXTS, *NUMBERS, None, True, False])

    def _properties(self) -> dict[str, Any]:
        if self._maybe(0.8):
            return {}
        keys = self._rng.sample(["z", "owner", "confluent:tags", "B", "é"], self._rng.randint(1, 3))
        return {key: self.value() for key in keys}

    def _primitive(self, _depth: int, _namespace: str) -> Any:
        name = self._rng.choice(PRIMITIVES)
        if self._maybe(0.75):
            return name
        logical = self._rng.choice(LOGICAL) if self._maybe(0.6) else {}
        return self._shuffled({"type": name, **logical, **self._properties()})

    def _shuffled(self, value: dict[str, Any]) -> dict[str, Any]:
        keys = list(value)
        if self._maybe(0.3):
            self._rng.shuffle(keys)
        return {key: value[key] for key in keys}

    def _name(self, namespace: str) -> tuple[dict[str, str], str, str]:
        """Return the attributes of a new name, its namespace, and its full name."""
        own = self._rng.choice(NAMESPACES) if self._maybe(0.3) else namespace
        free = [simple for simple in NAMES if f"{own}.{simple}".lstrip(".") not in self._known]
        simple = self._rng.choice(NAMES if self._maybe(0.03) or not free else free)
        if own and self._maybe(0.03):
            simple = "int"
        attributes = {"name": simple}
        if own != namespace or self._maybe(0.1):
            attributes = (
                {"name": simple, "namespace": own}
                if self._maybe(0.6) or not own
                else {"name": f"{own}.{simple}"}
            )
        return attributes, own, f"{own}.{simple}".lstrip(".")

    def _common(self) -> dict[str, Any]:
        common: dict[str, Any] = {}
        if self._maybe(0.2):
            common["doc"] = self._rng.choice(TEXTS)
        if self._maybe(0.15):
            common["aliases"] = [
                self._rng.choice([*NAMES, "c.d.Order", "a.Line"])
                for _ in range(self._rng.randint(0, 2))
            ]
        return common | self._properties()

    def _defined(self, value: dict[str, Any], full: str) -> dict[str, Any]:
        value = self._shuffled(value)
        self._known[full] = value
        return value

    def _named(self, depth: int, namespace: str) -> Any:
        return self._enum(depth, namespace) if self._maybe(0.5) else self._fixed(depth, namespace)

    def _enum(self, _depth: int, namespace: str) -> Any:
        attributes, _, full = self._name(namespace)
        symbols = self._rng.sample(SYMBOLS, self._rng.randint(1, 4))
        own = {"default": self._rng.choice(symbols)} if self._maybe(0.3) else {}
        return self._defined(
            {"type": "enum", **attributes, "symbols": symbols, **own, **self._common()}, full
        )

    def _fixed(self, _depth: int, namespace: str) -> Any:
        attributes, _, full = self._name(namespace)
        logical = self._rng.choice(LOGICAL) if self._maybe(0.3) else {}
        return self._defined(
            {
                "type": "fixed",
                **attributes,
                "size": self._rng.choice(SIZES),
                **logical,
                **self._common(),
            },
            full,
        )

    def _array(self, depth: int, namespace: str) -> Any:
        return self._shuffled(
            {"type": "array", "items": self.schema(depth, namespace), **self._properties()}
        )

    def _map(self, depth: int, namespace: str) -> Any:
        return self._shuffled(
            {"type": "map", "values": self.schema(depth, namespace), **self._properties()}
        )

    def _union(self, depth: int, namespace: str) -> Any:
        branches = [self.schema(depth, namespace) for _ in range(self._rng.randint(0, 3))]
        if self._maybe(0.03):
            return branches
        one_of_each = {
            self._identity(branch, namespace): branch
            for branch in branches
            if not isinstance(branch, list)
        }
        one_of_each.pop("null", None)
        kept = list(one_of_each.values())
        return ["null", *kept] if self._maybe(0.5) else kept

    def _identity(self, branch: Any, namespace: str) -> str:
        """Return the name of a branch, roughly."""
        if isinstance(branch, dict):
            return (
                f"{branch.get('namespace', namespace)}.{branch['name']}"
                if "name" in branch
                else str(branch["type"])
            )
        return str(branch) if "." in branch or branch in PRIMITIVES else f"{namespace}.{branch}"

    def _reference(self, _depth: int, namespace: str) -> Any:
        """Return a name: of a type that is there, one that may come later, or one that is lacking."""
        if not self._known or self._maybe(0.05):
            return self._rng.choice([*NAMES[:5], "string", "a.Order", "int"])
        full = self._rng.choice(list(self._known))
        before, _, simple = full.rpartition(".")
        return simple if before == namespace and self._maybe(0.7) else full

    def _record(self, depth: int, namespace: str) -> Any:
        attributes, own, full = self._name(namespace)
        word = "error" if self._maybe(0.03) else "record"
        record: dict[str, Any] = {"type": word, **attributes, "fields": []}
        if self._maybe(0.3):
            self._known[full] = {"type": "open"}
        names = self._rng.sample(FIELD_NAMES, self._rng.randint(0, 4))
        record["fields"] += [self.field(name, depth, own) for name in names]
        return self._defined(record | self._common(), full)

    def field(self, name: str, depth: int = 1, namespace: str = "") -> dict[str, Any]:
        """Return a field of a record."""
        described = self.schema(depth, namespace)
        field = {"name": name, "type": described}
        if self._maybe(0.4):
            field["default"] = self.default(described, namespace)
        if self._maybe(0.1):
            field["order"] = self._rng.choice(["ascending", "descending", "ignore", "IGNORE"])
        if self._maybe(0.1):
            field["aliases"] = [
                self._rng.choice([*FIELD_NAMES, "old id"]) for _ in range(self._rng.randint(0, 2))
            ]
        if self._maybe(0.1):
            field["doc"] = self._rng.choice(TEXTS)
        return self._shuffled(field | self._properties())

    def default(self, described: Any, namespace: str, depth: int = 3) -> Any:
        """Return a default that most often fits."""
        if depth < 0 or self._maybe(0.01):
            return self.value()
        if isinstance(described, list):
            return (
                self.default(self._rng.choice(described), namespace, depth - 1)
                if described
                else None
            )
        word = described["type"] if isinstance(described, dict) else described
        near = self._known.get(f"{namespace}.{word}", self._known.get(word, {}))
        known: dict[str, Any] = described if isinstance(described, dict) else near
        match known.get("type", word):
            case "array":
                return [
                    self.default(known["items"], namespace, depth - 1)
                    for _ in range(self._rng.randint(0, 2))
                ]
            case "map":
                keys = self._rng.sample(["b", "a", "é"], 2)
                return {key: self.default(known["values"], namespace, depth - 1) for key in keys}
            case "record" | "error" if known:
                inner = known.get("namespace", known["name"].rpartition(".")[0])
                fields = [
                    field for field in known["fields"] if "default" not in field or self._maybe(0.5)
                ]
                return {
                    field["name"]: self.default(field["type"], inner, depth - 1) for field in fields
                }
            case kind:
                return self._rng.choice(SCALARS[kind]) if kind in SCALARS else self.value()


class SchemaChanger:
    """Changes single places of a schema, as a person does, or as an enemy does."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._maker = SchemaMaker(rng)

    def changed(self, schema: Any, count: int) -> Any:
        """Return a copy with some changes."""
        box = [copy.deepcopy(schema)]
        for _ in range(count):
            if found := list(places(box)):
                holder, key = self._rng.choice(found)
                holder[key] = self._change(holder[key])
        return box[0]

    def _change(self, value: Any) -> Any:
        rng = self._rng
        if isinstance(value, str):
            return rng.choice(
                [
                    ["null", value],
                    "long",
                    "string",
                    "bytes",
                    {"type": "array", "items": value},
                    self._maker.schema(1),
                ]
            )
        if isinstance(value, list):
            return self._changed_union(value)
        if rng.random() < 0.1:
            return ["null", value]
        kind = str(value.get("type"))
        if kind not in {"record", "error", "enum", "fixed"} or rng.random() < 0.15:
            return self._changed_attribute(value)
        if kind == "fixed":
            return value | {"size": rng.choice(SIZES)}
        return self._changed_enum(value) if kind == "enum" else self._changed_record(value)

    def _changed_union(self, union: list[Any]) -> list[Any]:
        kept = [branch for branch in union if self._rng.random() < 0.8]
        return kept if self._rng.random() < 0.5 else [*union, self._maker.schema(1)]

    def _changed_enum(self, enum: dict[str, Any]) -> dict[str, Any]:
        symbols = self._rng.sample(SYMBOLS, self._rng.randint(1, 5))
        own = {"default": self._rng.choice(symbols)} if self._rng.random() < 0.3 else {}
        return (
            {key: value for key, value in enum.items() if key != "default"}
            | {"symbols": symbols}
            | own
        )

    def _changed_record(self, record: dict[str, Any]) -> dict[str, Any]:
        fields = record.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            return record
        fields = list(fields)
        pick = self._rng.randint(0, 4)
        if pick == 0:
            fields.insert(
                self._rng.randint(0, len(fields)), self._maker.field(self._rng.choice(FIELD_NAMES))
            )
        elif pick == 1:
            self._rng.shuffle(fields)
        elif fields:
            place = self._rng.randrange(len(fields))
            field = fields.pop(place)
            if pick == 2:
                fields.insert(
                    place, field | {"name": "renamed", "aliases": [field.get("name", "id")]}
                )
            if pick == 3:
                fields.insert(
                    place, {key: value for key, value in field.items() if key != "default"}
                )
        return record | {"fields": fields}

    def _changed_attribute(self, value: dict[str, Any]) -> dict[str, Any]:
        """Change a name, drop an attribute, or give one a value of another kind."""
        pick = self._rng.random()
        if pick < 0.4 and isinstance(value.get("name"), str):
            renamed = self._rng.choice([*NAMES, f"a.{value['name']}", "Order"])
            return value | {"name": renamed} | ({"aliases": [value["name"]]} if pick < 0.25 else {})
        if pick < 0.7:
            return value | {"namespace": self._rng.choice(NAMESPACES)}
        key = self._rng.choice(list(value))
        return (
            value | {key: self._rng.choice(WEIRD)}
            if pick < 0.8
            else {own: one for own, one in value.items() if own != key}
        )


def places(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place of a type inside a holder: its container and key."""
    keys = (
        [key for key in ("type", "items", "values") if key in holder]
        if isinstance(holder, dict)
        else range(len(holder))
    )
    for key in keys:
        value = holder[key]
        if isinstance(value, list) or (isinstance(value, dict) and "type" in value):
            yield holder, key
            yield from places(value)
        elif isinstance(value, str) and (
            key != "type"
            or "name" not in holder
            or not {"fields", "symbols", "size"} & holder.keys()
        ):
            yield holder, key
    if isinstance(holder, dict) and isinstance(holder.get("fields"), list):
        for field in holder["fields"]:
            yield from places(field) if isinstance(field, dict) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A reader beside a writer."""

    reader: Asked
    writer: Asked


def some_pair(rng: random.Random) -> Pair:
    """Return two changes of one schema."""
    maker, changer = SchemaMaker(rng), SchemaChanger(rng)
    referenced = [maker.root() for _ in range(rng.choice([0, 0, 0, 1, 2]))]
    schema = maker.root()
    is_new = rng.random() < 0.75
    return Pair(
        reader=_side(rng, changer, referenced, schema, is_new),
        writer=_side(rng, changer, referenced, schema, is_new),
    )


def _side(
    rng: random.Random, changer: SchemaChanger, referenced: list[Any], schema: Any, is_new: bool
) -> Asked:
    dependencies = [changer.changed(one, rng.choice([0, 0, 0, 1])) for one in referenced]
    text = written(rng, changer.changed(schema, rng.choice([0, 0, 1, 1, 2])))
    return Asked(
        text=text, dependencies=tuple(written(rng, one) for one in dependencies), is_new=is_new
    )


def written(rng: random.Random, schema: Any) -> str:
    """Return the text of a schema, in one of several layouts."""
    indent, is_ascii = rng.choice([None, None, 1]), rng.random() < 0.3
    text = json.dumps(schema, indent=indent, ensure_ascii=is_ascii)
    return text.replace("{", "{ /* a comment */ ", 1) if rng.random() < 0.02 else text
