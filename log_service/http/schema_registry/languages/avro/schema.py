"""Avro as a language of the registry: it parses, and its schemas print and compare themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from log_service.http.schema_registry.languages.avro.compatibility import differences
from log_service.http.schema_registry.languages.avro.definitions import same_type
from log_service.http.schema_registry.languages.avro.normal_form import normal
from log_service.http.schema_registry.languages.avro.printing import print_type
from log_service.http.schema_registry.languages.avro.reading import SchemaTypes, read_schema
from log_service.http.schema_registry.languages.avro.types import Record, full_name
from log_service.http.schema_registry.languages.language import (
    BACKWARD_SIDES,
    Difference,
    NamedSchema,
    SchemaType,
    Sides,
)
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, Budget, SchemaLimits


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AvroSchema:
    """One valid schema with the types of its references."""

    types: SchemaTypes
    canonical: str
    limits: SchemaLimits

    def __repr__(self) -> str:
        return f"<AvroSchema {self.canonical}>"

    @property
    def schema_type(self) -> SchemaType:
        """The language."""
        return SchemaType.AVRO

    @property
    def top_level_fields(self) -> frozenset[str]:
        """The fields of the record. Other types have none."""
        root = self.types.root
        return frozenset(root.fields) if isinstance(root, Record) else frozenset()

    def normalized(self) -> str:
        """Return the text in its normal form.

        Java's library refuses a type of a reference that is defined again in another form. Such a
        type is left out and the reference defines it, even if the canonical text has it.
        """
        budget = Budget(self.limits)
        changed = (each for each in self.types.named if not same_type(normal(each), each, budget))
        known = {*self.types.referenced_names, *map(full_name, changed)}
        return print_type(self.types.root, known, view=normal)

    def formatted(self, form: str) -> str:
        """Return the text in a form. ``resolved`` has the types of references written out."""
        return print_type(self.types.root) if form.lower() == "resolved" else self.canonical

    def differences(
        self,
        writer: "AvroSchema",
        *,
        sides: Sides = BACKWARD_SIDES,
        is_lenient: bool = False,  # noqa: ARG002
    ) -> list[Difference]:
        """Return the reasons that keep this schema from reading values of ``writer``.

        There is one policy.

        Raises:
            InvalidSchemaError: the comparison takes too many steps.
        """
        found = differences(self.types.root, writer.types.root, Budget(self.limits))
        return [replace(each, text=_with_sides(each.text, sides)) for each in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroLanguage:
    """The language Avro, within bounds."""

    limits: SchemaLimits = USUAL_LIMITS

    @property
    def schema_type(self) -> SchemaType:
        """The name in requests and records."""
        return SchemaType.AVRO

    def parse(
        self, text: str, dependencies: Sequence[NamedSchema] = (), *, is_new: bool = True
    ) -> AvroSchema:
        """Return the schema of a text.

        A new schema has valid names and defaults. Of an old one only the structure is checked.

        Raises:
            InvalidSchemaError: the text is not an Avro schema, or is over a bound.
        """
        types = read_schema(text, dependencies, is_new=is_new, limits=self.limits)
        canonical = print_type(types.root, types.referenced_names, nesting=self.limits.nesting)
        return AvroSchema(types=types, canonical=canonical, limits=self.limits)


AVRO = AvroLanguage()


def _with_sides(text: str, sides: Sides) -> str:
    """Return a text with the reader's name in place of the first ``%s``, and the writer's in the
    second.
    """
    return text.replace("%s", sides.reader, 1).replace("%s", sides.writer, 1)
