"""Holds the file that is checked, and reports a broken rule."""

from dataclasses import dataclass

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import FileDefinition
from log_service.http.schema_registry.languages.protobuf.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A file that is checked, and the definitions that it may use."""

    file: FileDefinition
    pool: Pool
    budget: Budget

    @property
    def is_proto3(self) -> bool:
        """Whether the file is of proto3."""
        return self.file.node.syntax == "proto3"

    @property
    def is_edition(self) -> bool:
        """Whether the file is of an edition."""
        return bool(self.file.node.edition)

    @property
    def is_proto2(self) -> bool:
        """Whether the file is of proto2, which is the default."""
        return not self.is_proto3 and not self.is_edition

    def error(self, at: int, sentence: str) -> InvalidSchemaError:
        """Return an error at a position of the file."""
        return self.file.source.error(at, sentence)

    def require(self, at: int, sentence: str, *, that: bool) -> None:
        """Raise an error with ``sentence`` at a position unless ``that`` is true.

        Raises:
            InvalidSchemaError: ``that`` is false.
        """
        if not that:
            raise self.error(at, sentence)
