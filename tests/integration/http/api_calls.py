"""Calls of the registry's API that tests repeat, and Avro records as texts."""

import json
from typing import Any

import httpx

A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_WITH_DEFAULT = {"name": "b", "type": "string", "default": ""}


def record(*fields: dict[str, Any], name: str = "R") -> str:
    """Return the text of an Avro record in canonical form."""
    whole = {"type": "record", "name": name, "fields": list(fields)}
    return json.dumps(whole, separators=(",", ":"))


def register(api: httpx.Client, subject: str, text: str, **fields: Any) -> dict[str, Any]:
    """Register a schema, and return the response."""
    response = api.post(f"/subjects/{subject}/versions", json={"schema": text, **fields})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def error(response: httpx.Response) -> tuple[int, int]:
    """Return the status and the error code of a refusal."""
    return response.status_code, response.json()["error_code"]
