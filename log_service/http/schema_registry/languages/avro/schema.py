"""Implements the registry's language protocol for Avro: parses, prints and compares schemas."""

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
    """One valid schema with the types of the schemas that it refers to."""

    types: SchemaTypes
    canonical: str
    limits: SchemaLimits

    def __repr__(self) -> str:
        return f"<AvroSchema {self.canonical}>"

    @property
    def schema_type(self) -> SchemaType:
        """The schema's language."""
        return SchemaType.AVRO

    @property
    def top_level_fields(self) -> frozenset[str]:
        """The names of the record's fields. The set is empty if the schema is not a record."""
        root = self.types.root
        return frozenset(root.fields) if isinstance(root, Record) else frozenset()

    def normalized(self) -> str:
        """Return the text in its normal form.

        The root type of a reference is printed as its name. So is each other type of a reference
        whose normal form differs from its definition, though the canonical text repeats the
        definition. Java's library would refuse a text that defines a type again in another way.
        """
        budget = Budget(self.limits)
        changed = (each for each in self.types.named if not same_type(normal(each), each, budget))
        known = {*self.types.referenced_names, *map(full_name, changed)}
        return print_type(self.types.root, known, view=normal)

    def formatted(self, form: str) -> str:
        """Return the text in a format.

        The format ``resolved`` includes the definitions of referenced types. Any other one means
        the canonical text.
        """
        return print_type(self.types.root) if form.lower() == "resolved" else self.canonical

    def differences(
        self,
        writer: "AvroSchema",
        *,
        sides: Sides = BACKWARD_SIDES,
        is_lenient: bool = False,  # noqa: ARG002
    ) -> list[Difference]:
        """Return the reasons that keep this schema from reading values of ``writer``.

        Avro has only one policy, so ``is_lenient`` changes nothing.

        Raises:
            InvalidSchemaError: the comparison takes too many steps.
        """
        found = differences(self.types.root, writer.types.root, Budget(self.limits))
        return [replace(each, text=_with_sides(each.text, sides)) for each in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroLanguage:
    """The language Avro, with bounds on its schemas."""

    limits: SchemaLimits = USUAL_LIMITS

    @property
    def schema_type(self) -> SchemaType:
        """The language's name in requests and records."""
        return SchemaType.AVRO

    def parse(
        self, text: str, dependencies: Sequence[NamedSchema] = (), *, is_new: bool = True
    ) -> AvroSchema:
        """Parse a text, and return its schema.

        A new schema must have valid names and defaults. Of an old schema only the structure is
        checked.

        Raises:
            InvalidSchemaError: the text is not an Avro schema, or is over a bound.
        """
        types = read_schema(text, dependencies, is_new=is_new, limits=self.limits)
        canonical = print_type(types.root, types.referenced_names, nesting=self.limits.nesting)
        return AvroSchema(types=types, canonical=canonical, limits=self.limits)


AVRO = AvroLanguage()


def _with_sides(text: str, sides: Sides) -> str:
    """Replace the first ``%s`` of a text by the reader's name, and the second by the writer's."""
    return text.replace("%s", sides.reader, 1).replace("%s", sides.writer, 1)
