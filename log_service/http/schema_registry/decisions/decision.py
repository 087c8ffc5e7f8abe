"""The value that a decision about a change returns."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from log_service.http.schema_registry.records import RegistryRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[T]):
    """Records to write as one batch, and the result for the client."""

    records: tuple[RegistryRecord, ...] = ()
    result: T
