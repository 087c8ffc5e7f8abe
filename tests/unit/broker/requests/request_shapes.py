"""Requests with as many list elements as one wants, of every API: each list in turn is the long
one.

They are made from the schemas: names and numbers in a list differ, everything else is as small as
it can be.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.schema import Field, has_version

Path = tuple[str, ...]
NOT_ZERO: dict[str, Any] = {
    "resource_type": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_type_filter": 2,
    "operation": 3,
}
"""Numbers of which 0 closes a connection or refuses a request whole."""
NOT_ZERO |= {
    "permission_type": 3,
    "acks": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "timeout_ms": 100,
    "transactional_id": None,
}
NOT_ZERO |= {
    "max_bytes": 1000,
    "partition_max_bytes": 1000,
    "timestamp": -1,
    "mechanism": 1,
    "iterations": 4096,
    "key_type": 0,
}


def shapes(key: ApiKey, version: int) -> Iterator[Path]:
    """Yield the lists of a request in a version, each as the names of the fields that lead to it."""
    yield from _paths(request_class(key), version, ())


def _paths(cls: Any, version: int, before: Path) -> Iterator[Path]:
    for field in cls.SCHEMA.fields:
        if has_version(field.versions, version) and field.is_array:
            yield (*before, field.name)
            if field.struct is not None:
                yield from _paths(field.struct, version, (*before, field.name))


def request_of(key: ApiKey, version: int, path: Path, count: int) -> Any:
    """Return a request whose list at ``path`` has ``count`` elements."""
    return _filled(request_class(key), version, path, count, 0)


def _filled(cls: Any, version: int, path: Path, count: int, index: int) -> Any:
    values = {}
    for field in cls.SCHEMA.fields:
        if not has_version(field.versions, version):
            continue
        if field.is_array:
            is_on_path = bool(path) and path[0] == field.name
            if is_on_path:
                rest = path[1:]
                values[field.name] = [
                    _element(field, version, rest, count, each)
                    for each in range(1 if rest else count)
                ]
            else:
                values[field.name] = []
        else:
            value = _scalar(field, index)
            if value is not None:
                values[field.name] = value
    return cls(**values)


def _element(field: Field, version: int, path: Path, count: int, index: int) -> Any:
    if field.struct is not None:
        return _filled(field.struct, version, path, count, index)
    return _scalar(field, index, is_item=True)


def _scalar(field: Field, index: int, *, is_item: bool = False) -> Any:
    if field.name in NOT_ZERO:
        return NOT_ZERO[field.name]
    kind = field.element_type
    if kind == "string":
        return f"name-{index}"
    if kind == "uuid":
        return UUID(int=index + 1)
    if is_item or field.name in {"partition", "partition_index", "index", "partition_id"}:
        return index % 128 if kind == "int8" else index
    if kind in {"bytes", "records"}:
        return b"" if field.default is not None or not field.nullable else None
    return None
