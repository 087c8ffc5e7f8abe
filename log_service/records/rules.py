"""A log's demands on single records, and the refusal of batches that break them.

The module chooses texts and codes. It limits how many records are named, because a client may send
a million.
"""

from typing import NamedTuple, Protocol

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP
from log_service.records.limits import Allowance

MAX_RECORD_ERRORS = 100
"""Maximum number of refused records that an error names."""


class RejectedRecordsError(KafkaError):
    """Refusal of a batch because of single records: INVALID_RECORD or INVALID_TIMESTAMP (KIP-467).

    ``record_errors`` are (index in the batch, text) for the first ``MAX_RECORD_ERRORS`` records.
    """

    def __init__(
        self, code: ErrorCode, record_errors: tuple[tuple[int, str], ...], refused_count: int
    ) -> None:
        super().__init__(
            code,
            f"{refused_count} records of the batch were refused, the first because:"
            f" {record_errors[0][1]}",
        )
        self.record_errors = record_errors


MAX_WANTED_SCHEMAS = 8
"""Maximum number of unknown schemas that one check of a batch names.

A batch with a wrong one is refused before the others are looked up.
"""

SchemaName = int | bytes
"""The id of a schema, or the 16 bytes of its guid."""


class NamedSchema(NamedTuple):
    """A schema that a key or a value names."""

    is_key: bool
    name: SchemaName


class UnknownSchemasError(KafkaError):
    """A batch names schemas that are neither accepted nor refused yet: REQUEST_TIMED_OUT.

    Nothing else is wrong with the batch. ``names`` are some of the schemas.
    """

    def __init__(self, names: tuple[NamedSchema, ...]) -> None:
        text = "the schemas of the batch are not known yet"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, text)
        self.names = names


class SchemaRules(Protocol):
    """A log's demand that keys or values name schemas that are registered.

    An implementation holds the decisions of the schema registry.
    """

    @property
    def parts(self) -> tuple[bool, ...]:
        """The checked parts of a record: True for its key, False for its value."""

    def decision(self, name: SchemaName, *, is_key: bool) -> str | None:
        """Return "" if a schema is accepted, the reason if it is refused, or None if unknown."""


class RecordRules(NamedTuple):
    """A log's demands on well-formed records: a key, and bounds on timestamps.

    Bounds are in ms, inclusive. Timestamp -1 is always valid.
    """

    base_timestamp: int
    earliest_ms: int
    latest_ms: int
    is_key_needed: bool

    def fault_of(self, timestamp: int, *, is_keyless: bool) -> tuple[ErrorCode, str] | None:
        """Return the fault of a record with these fields, or None."""
        if is_keyless and self.is_key_needed:
            return ErrorCode.INVALID_RECORD, "the topic is compacted: a record needs a key"
        if timestamp != NO_TIMESTAMP and not self.earliest_ms <= timestamp <= self.latest_ms:
            return (
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is not between {self.earliest_ms} and {self.latest_ms}",
            )
        return None


class RecordFaults:
    """Collector of a batch's records that break a rule, with their count and the first of them."""

    __slots__ = ("_code", "_wanted", "allowance", "count", "named", "rules", "schemas")

    def __init__(
        self, rules: RecordRules | None, allowance: Allowance, schemas: SchemaRules | None = None
    ) -> None:
        self.rules = rules
        self.schemas = schemas
        self._wanted: set[NamedSchema] = set()
        self.allowance = allowance
        self._code = ErrorCode.INVALID_RECORD
        self.count = 0
        self.named: list[tuple[int, str]] = []

    def add(self, index: int, code: ErrorCode, text: str) -> None:
        """Add a record that breaks a rule.

        If one of the records has a wrong timestamp, the code of the refusal is INVALID_TIMESTAMP.
        """
        self.count += 1
        if code is ErrorCode.INVALID_TIMESTAMP:
            self._code = code
        if len(self.named) < MAX_RECORD_ERRORS:
            self.named.append((index, text))

    def want(self, name: SchemaName, *, is_key: bool) -> None:
        """Note a schema that the registry has to be asked about.

        The registry has neither accepted nor refused it yet.
        """
        if len(self._wanted) < MAX_WANTED_SCHEMAS:
            self._wanted.add(NamedSchema(is_key, name))

    def raise_if_any(self) -> None:
        """Refuse the batch if one of its records was noted, or a schema is unknown.

        Raises:
            RejectedRecordsError: names the first records.
            UnknownSchemasError: names some of the schemas.
        """
        if self.named:
            reasons: dict[int, str] = {}
            for index, text in self.named:
                reasons.setdefault(index, text)  # key and value of one record may both be wrong
            count = self.count - len(self.named) + len(reasons)
            raise RejectedRecordsError(self._code, tuple(sorted(reasons.items())), count)
        if self._wanted:
            raise UnknownSchemasError(tuple(self._wanted))


def misplaced(index: int, offset_delta: int) -> tuple[ErrorCode, str]:
    """Return the fault of a record whose offset delta is not its index in the batch."""
    return (
        ErrorCode.INVALID_RECORD,
        f"the record has offset delta {offset_delta} where {index} is due",
    )
