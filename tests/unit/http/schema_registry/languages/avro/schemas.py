"""Short ways to write and parse schemas in tests."""

import json
from typing import Any

from log_service.http.schema_registry.languages.avro.schema import AvroLanguage, AvroSchema
from log_service.http.schema_registry.languages.language import NamedSchema


def record(name: str, *fields: Any, **attributes: Any) -> dict[str, Any]:
    """Return a record as a JSON value."""
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def field(name: str, described: Any, **attributes: Any) -> dict[str, Any]:
    """Return a field as a JSON value."""
    return {"name": name, "type": described, **attributes}


def enum(name: str, *symbols: str, **attributes: Any) -> dict[str, Any]:
    """Return an enum as a JSON value."""
    return {"type": "enum", "name": name, "symbols": list(symbols), **attributes}


def fixed(name: str, size: Any, **attributes: Any) -> dict[str, Any]:
    """Return a fixed as a JSON value."""
    return {"type": "fixed", "name": name, "size": size, **attributes}


def text(schema: Any) -> str:
    """Return the compact text of a JSON value."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def parsed(schema: Any, *dependencies: Any, is_new: bool = True) -> AvroSchema:
    """Return the schema of a JSON value, or of a text. Dependencies are called r0, r1 and so on."""
    named = [
        NamedSchema(name=f"r{number}", text=_text(one)) for number, one in enumerate(dependencies)
    ]
    return AvroLanguage().parse(_text(schema), named, is_new=is_new)


def _text(schema: Any) -> str:
    return schema if isinstance(schema, str) else text(schema)
