"""Avro's own JSON encoding: a value of a union is tagged with its branch, ``{"string": "paid"}``.

A value that fastavro has read does not tell which branch of a union it was written with. So each
branch is read as a record with one field, which has the same bytes as the branch alone. fastavro
returns the name of a record in a union, and this name identifies the branch.

As in Confluent's REST proxy, a value gets no tag if its whole schema is a union, and dates and
times are Avro's numbers. A decimal is text with its digits.
"""

from collections.abc import Callable
from typing import Any, Final

from log_service.client.schemas.avro import decode_avro
from log_service.client.schemas.avro_json import branch_name, to_json
from log_service.client.schemas.errors import schemas_extra

with schemas_extra():
    import fastavro

FIELD: Final = "value"
PREFIX: Final = "_tidelog_branch_"
INTEGERS: Final = frozenset({"int", "long"})
"""The types of dates and times, which stay numbers."""
LEFT_OUT: Final = frozenset({"__fastavro_parsed__", "__named_schemas", "default", "aliases", "doc"})


class BranchTags:
    """Makes a schema with a record around each branch of a union, and tags values read with it."""

    def __init__(self, parsed: Any) -> None:
        """Convert a schema. fastavro must have parsed it, so that all its names are full names."""
        self._names: list[str] = []
        self.schema: Any = self._wrapped(parsed)
        self._is_union = isinstance(parsed, list)

    def __repr__(self) -> str:
        return f"<BranchTags branches={len(self._names)}>"

    def _wrapped(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._branch(each) for each in node]
        if not isinstance(node, dict):
            return node
        found = {name: part for name, part in node.items() if name not in LEFT_OUT}
        if isinstance(found["type"], str) and found["type"] in INTEGERS:
            found.pop("logicalType", None)
        for name in ("items", "values"):
            if name in found:
                found[name] = self._wrapped(found[name])
        if isinstance(found["type"], dict | list):
            found["type"] = self._wrapped(found["type"])
        if "fields" in found:
            found["fields"] = [
                {"name": each["name"], "type": self._wrapped(each["type"])}
                for each in found["fields"]
            ]
        return found

    def _branch(self, branch: Any) -> Any:
        if branch_name(branch) == "null":
            return branch
        self._names.append(branch_name(branch))
        name = f"{PREFIX}{len(self._names) - 1}"
        fields = [{"name": FIELD, "type": self._wrapped(branch)}]
        return {"type": "record", "name": name, "fields": fields}

    def to_json(self, value: Any) -> Any:
        """Convert a value that was read with ``schema`` to Avro's own JSON."""
        if self._is_union and value is not None:
            return self._json(value[1][FIELD])
        return self._json(value)

    def _json(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._json(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._json(each) for each in value]
        if isinstance(value, tuple):
            number = int(value[0].rpartition(PREFIX)[2])
            return {self._names[number]: self._json(value[1][FIELD])}
        return to_json(value)


def tagged_decoder(parsed: Any) -> Callable[[bytes], Any]:
    """Return the function that decodes payloads of a parsed schema into Avro's own JSON.

    Raises:
        SerializationError: with this schema, few bytes could become any number of values.
    """
    decode_avro(parsed, None)  # the bounds hold for the schema as it is
    tags = BranchTags(parsed)
    decode = decode_avro(fastavro.parse_schema(tags.schema), None, return_record_name=True)
    return lambda payload: tags.to_json(decode(payload))
