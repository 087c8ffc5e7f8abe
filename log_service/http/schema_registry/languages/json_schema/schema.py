"""Implements the registry's language protocol for JSON Schema: parses, prints, compares schemas."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from log_service.http.schema_registry.languages.json_schema.bundle import bundled
from log_service.http.schema_registry.languages.json_schema.changes import (
    Policy,
    compatible_changes,
    message,
)
from log_service.http.schema_registry.languages.json_schema.comparison import (
    Comparison,
    FoundChange,
    Pair,
    changes_of,
)
from log_service.http.schema_registry.languages.json_schema.drafts import draft_of
from log_service.http.schema_registry.languages.json_schema.json_text import (
    Json,
    print_json,
    read_json,
    validate_unicode,
)
from log_service.http.schema_registry.languages.json_schema.references import (
    Documents,
    validate_references,
)
from log_service.http.schema_registry.languages.json_schema.schema_rules import compare_shapes
from log_service.http.schema_registry.languages.json_schema.shape_reader import ShapeReader
from log_service.http.schema_registry.languages.json_schema.validity import validate_schema
from log_service.http.schema_registry.languages.language import (
    BACKWARD_SIDES,
    Difference,
    InvalidSchemaError,
    NamedSchema,
    SchemaType,
    Sides,
)
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, Budget, SchemaLimits

RESOLVED = "resolved"
"""The format in which a schema contains its dependencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema:
    """A parsed JSON schema with the schemas that it refers to.

    Only a schema that was parsed as a new one is known to be valid.
    """

    canonical: str
    documents: Documents = field(repr=False)
    limits: SchemaLimits = field(default=USUAL_LIMITS, repr=False)

    @property
    def schema_type(self) -> SchemaType:
        """The schema's language."""
        return SchemaType.JSON

    @property
    def top_level_fields(self) -> frozenset[str]:
        """The names in the ``properties`` of the root schema.

        Properties of inner and referenced schemas are left out.
        """
        root = self.documents.root.schema
        properties = root.get("properties") if isinstance(root, dict) else None
        return frozenset(properties) if isinstance(properties, dict) else frozenset()

    def normalized(self) -> str:
        """Return the text with the members of each object sorted by name."""
        return print_json(self.documents.root.schema, is_sorted=True)

    def formatted(self, form: str) -> str:
        """Return the text in a format.

        ``resolved`` includes the dependencies. Any other format means the canonical text.
        """
        if form != RESOLVED:
            return self.canonical
        return print_json(bundled(self.documents, Budget(self.limits)))

    def differences(
        self, writer: Self, *, sides: Sides = BACKWARD_SIDES, is_lenient: bool = False
    ) -> list[Difference]:
        """Return the reasons that keep this schema from reading values of ``writer``.

        The result is empty if the schema can read them.

        Raises:
            InvalidSchemaError: the comparison takes too many steps.
        """
        policy = Policy.LENIENT if is_lenient else Policy.STRICT
        changes = self.changes(writer, policy=policy, with_compatible=False)
        return [_difference(found, sides) for found in changes]

    def changes(
        self, writer: Self, *, policy: Policy = Policy.STRICT, with_compatible: bool = True
    ) -> list[FoundChange]:
        """Return the changes from ``writer`` to this schema, with the compatible ones by default.

        Raises:
            InvalidSchemaError: the comparison takes too many steps.
        """
        shapes = ShapeReader(writer.documents, self.documents)
        compatible = compatible_changes(policy)
        comparison = Comparison(compare_shapes, shapes, compatible, Budget(self.limits))
        outcome = comparison.outcome(Pair(writer=writer.documents.root, reader=self.documents.root))
        return changes_of(outcome, compatible, all_changes=with_compatible)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchemaLanguage:
    """JSON Schema of the drafts 4, 6, 7, 2019-09 and 2020-12."""

    limits: SchemaLimits = USUAL_LIMITS

    @property
    def schema_type(self) -> SchemaType:
        """The language's name in requests and records."""
        return SchemaType.JSON

    def parse(
        self, text: str, dependencies: Sequence[NamedSchema] = (), *, is_new: bool = True
    ) -> JsonSchema:
        """Parse a text, and return its schema.

        Unless ``is_new``, the schema may be invalid and may refer to unknown schemas.

        Raises:
            InvalidSchemaError: the text is not a JSON schema, or is over a bound. The message names
                the line, or the path inside the schema.
        """
        budget = Budget(self.limits)
        schema = read_json(text, self.limits)
        if not isinstance(schema, dict | bool):
            raise InvalidSchemaError("#: a schema is an object, or true or false")
        canonical = print_json(schema)
        validate_unicode(canonical)
        documents = Documents.of(schema, self._read(dependencies, budget), budget)
        if is_new:
            validate_schema(schema, draft_of(schema), budget)
            validate_references(documents, budget)
        return JsonSchema(canonical=canonical, documents=documents, limits=self.limits)

    def _read(self, dependencies: Sequence[NamedSchema], budget: Budget) -> list[tuple[str, Json]]:
        if (count := len(dependencies)) > self.limits.reference_count:
            limit = self.limits.reference_count
            raise InvalidSchemaError(f"{count} references are more than {limit}")
        read: list[tuple[str, Json]] = []
        for each in dependencies:
            budget.spend(len(each.text) // CHARACTERS_PER_STEP)
            try:
                read.append((each.name, read_json(each.text, self.limits)))
            except InvalidSchemaError as error:
                raise InvalidSchemaError(f"reference {each.name!r}: {error}") from error
        return read


def _difference(found: FoundChange, sides: Sides) -> Difference:
    text = message(found.change, found.path, reader=sides.reader, writer=sides.writer)
    return Difference(kind=found.change.name, path=found.path, text=text)


CHARACTERS_PER_STEP = 100
"""The characters of a dependency that are read for one step of the budget."""
JSON_SCHEMA = JsonSchemaLanguage()
