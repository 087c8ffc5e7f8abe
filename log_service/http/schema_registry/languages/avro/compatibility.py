"""Tells why a reader's type cannot read a writer's data, as Java's ``SchemaCompatibility`` does.

Names are compared without their namespaces, or by an alias of the reader. Each pair of types is
compared once. A pair that is met again inside itself counts as compatible. A repeated pair has the
reasons and paths of its first comparison. Sources: Avro's specification, "Schema Resolution", and
the library of Avro 1.12. The texts of reasons are those of Confluent's registry.
"""

from collections.abc import Generator
from typing import NamedTuple, TypeAlias

from log_service.http.schema_registry.languages.avro.normal_form import alias_text
from log_service.http.schema_registry.languages.avro.types import (
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Kind,
    Map,
    Named,
    Primitive,
    Record,
    Union,
    Use,
    target,
    utf16_order,
)
from log_service.http.schema_registry.languages.language import Difference
from log_service.http.schema_registry.languages.limits import Budget

PROMOTIONS = {
    Kind.LONG: {Kind.INT},
    Kind.FLOAT: {Kind.INT, Kind.LONG},
    Kind.DOUBLE: {Kind.INT, Kind.LONG, Kind.FLOAT},
    Kind.BYTES: {Kind.STRING},
    Kind.STRING: {Kind.BYTES},
}
"""Which other kinds a kind reads."""

READABLE = {kind: frozenset({kind} | PROMOTIONS.get(kind, set())) for kind in PRIMITIVES.values()}

PARTS_OF_A_STEP = 8
"""Fields and symbols are looked up by name, which is much cheaper than to compare types."""

CHARACTERS_OF_A_STEP = 64

_AT = "at path '{path}' in the %s schema"
_NO_MATCH = "does not match with the %s schema"
_NO_DEFAULT = "has no default value and is missing in the %s schema"
DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": f"The size of FIXED type field {_AT} {_NO_MATCH}",
    "TYPE_MISMATCH": f"The type (path '{{path}}') of a field in the %s schema {_NO_MATCH}",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": f"The %s schema is missing enum symbols '{{detail}}' {_AT}",
    "MISSING_UNION_BRANCH": f"The %s schema is missing a type inside a union field {_AT}",
    "READER_FIELD_MISSING_DEFAULT_VALUE": f"The field '{{detail}}' {_AT} {_NO_DEFAULT}",
    "AMBIGUOUS_FIELD": f"The field '{{detail}}' {_AT} has names of several fields of the %s schema",
}
"""The text of each kind of difference. The first ``%s`` is the reader, the second the writer."""

Place: TypeAlias = "tuple[Place, str] | None"
"""The place of a type in a schema: the enclosing place, and the step from it. None is the root."""


class Reason(NamedTuple):
    """One incompatibility, from which the text of a message is made later."""

    kind: str
    place: Place
    detail: str


Reasons: TypeAlias = list[Reason]
Question: TypeAlias = tuple[Use, Use, Place]
"""A reader, a writer, and the place of both."""

Comparison: TypeAlias = Generator[Question, Reasons, Reasons]
"""A comparison under way. It yields the pairs whose result it needs, and is sent the reasons."""


class _AmbiguousFieldError(Exception):
    """A reader's field matches several fields of the writer, so the comparison ends."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Run:
    """The budget of one comparison of two schemas, and a cache of the primitive kinds of types."""

    __slots__ = ("_kinds", "_readable", "budget")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._kinds: dict[int, frozenset[Kind] | None] = {}
        self._readable: dict[int, frozenset[Kind] | None] = {}

    def is_plain_match(self, reader: Use, writer: Use) -> bool:
        """Return whether both are primitive, or unions of primitives, and the reader reads all.

        This is a fast path that decides most fields. False means only that the full comparison is
        needed.
        """
        try:
            written, readable = self._kinds[id(writer)], self._readable[id(reader)]
        except KeyError:
            written = self._kinds[id(writer)] = plain_kinds(writer)
            kinds = plain_kinds(reader)
            readable = kinds and frozenset[Kind]().union(*(READABLE[kind] for kind in kinds))
            self._readable[id(reader)] = readable
        return written is not None and readable is not None and written <= readable


def plain_kinds(use: Use) -> frozenset[Kind] | None:
    """Return the kind of a primitive type, or the kinds of a union of only primitive types.

    Return None for any other type.
    """
    branches = use.branches if isinstance(use, Union) else (use,)
    kinds = frozenset(branch.kind for branch in branches if isinstance(branch, Primitive))
    return kinds if len(kinds) == len(branches) else None


def differences(reader: AvroType, writer: AvroType, budget: Budget) -> list[Difference]:
    """Return the reasons that keep a reader from reading a writer's values.

    The result is empty if the reader can read them.

    Raises:
        InvalidSchemaError: the comparison takes more steps than the budget has.
    """
    try:
        reasons = _compare_all(reader, writer, _Run(budget))
    except _AmbiguousFieldError as error:
        reasons = [error.reason]
    found = []
    for reason in reasons:
        found.append(_difference(reason))
        budget.spend(len(found[-1].text) // CHARACTERS_OF_A_STEP)
    return found


def _difference(reason: Reason) -> Difference:
    path = _path(reason.place)
    description = DESCRIPTIONS[reason.kind].format(path=path, detail=reason.detail)
    text = f"errorType:'{reason.kind}', description:'{description}'"
    detail = f"additionalInfo:'{reason.detail}'"
    return Difference(kind=reason.kind, path=path, text=f"{{{text}, {detail}}}")


def _path(place: Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return "".join(reversed(steps)) or "/"


def _compare_all(reader: AvroType, writer: AvroType, run: _Run) -> Reasons:
    """Run a comparison and all inner comparisons with an explicit stack instead of recursion.

    Types may refer to each other by name deeper than Python's stack allows.
    """
    known: dict[tuple[int, int], Reasons] = {}
    under_way: list[tuple[tuple[int, int], Comparison]] = []

    def ask(question: Question) -> Reasons | None:
        """Return the reasons for a pair, or None after its comparison was put on the stack."""
        left, right, place = target(question[0]), target(question[1]), question[2]
        pair = (id(left), id(right))
        if pair not in known:
            run.budget.spend()
            # Until it is known, a pair that is met inside itself counts as compatible.
            known[pair] = []
            comparison = _compare(left, right, place, run)
            if not isinstance(comparison, list):
                under_way.append((pair, comparison))
                return None
            known[pair] = comparison
        return known[pair]

    answer = ask((reader, writer, None))
    while under_way:
        pair, comparison = under_way[-1]
        try:
            question = next(comparison) if answer is None else comparison.send(answer)
        except StopIteration as done:
            answer = known[pair] = done.value
            run.budget.spend(len(known[pair]))
            under_way.pop()
        else:
            answer = ask(question)
    assert answer is not None, "the first comparison has ended"
    return answer


def _compare(reader: AvroType, writer: AvroType, place: Place, run: _Run) -> Comparison | Reasons:
    """Return the reasons of a pair, or a generator of them if they depend on other pairs."""
    comparison: Comparison | Reasons
    match reader, writer:
        case Union(), Union():
            comparison = _unions(reader, writer, place)
        case _, Union():
            comparison = _each_branch(reader, writer, place)
        case Union(), _:
            comparison = _any_branch(reader, writer, place)
        case Array(), Array():
            comparison = _part((reader.items, writer.items, (place, "/items")))
        case Map(), Map():
            comparison = _part((reader.values, writer.values, (place, "/values")))
        case Record(), Record():
            comparison = _records(reader, writer, place, run)
        case Enum(), Enum():
            names = _names(reader, writer, place, run)
            comparison = names + _symbols(reader, writer, place, run)
        case Fixed(), Fixed():
            names = _names(reader, writer, place, run)
            comparison = names + _sizes(reader, writer, place)
        case _:
            comparison = _kinds(reader, writer, place)
    return comparison


def _part(question: Question) -> Comparison:
    return (yield question)


def _unions(reader: Union, writer: Union, place: Place) -> Comparison:
    """Return a reason for each branch of the writer that the reader cannot read."""
    missing = []
    for number, branch in enumerate(writer.branches):
        if (yield reader, branch, None):
            missing.append(_missing_branch((place, f"/{number}"), target(branch)))
    return missing


def _each_branch(reader: AvroType, writer: Union, place: Place) -> Comparison:
    reasons: Reasons = []
    for number, branch in enumerate(writer.branches):
        reasons += yield reader, branch, (place, f"/{number}")
    return reasons


def _any_branch(reader: Union, writer: AvroType, place: Place) -> Comparison:
    for branch in reader.branches:
        if not (yield branch, writer, None):
            return []
    return [_missing_branch(place, writer)]


def _missing_branch(place: Place, writer: AvroType) -> Reason:
    detail = f"reader union lacking writer type: {writer.kind.name}"
    return Reason("MISSING_UNION_BRANCH", place, detail)


def _kinds(reader: AvroType, writer: AvroType, place: Place) -> Reasons:
    if reader.kind is writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
        return []
    kinds = f"reader type: {reader.kind.name} not compatible with writer type: {writer.kind.name}"
    return [Reason("TYPE_MISMATCH", place, kinds)]


def _names(reader: Named, writer: Named, place: Place, run: _Run) -> Reasons:
    run.budget.spend(len(reader.aliases) // PARTS_OF_A_STEP)
    if reader.name.simple == writer.name.simple:
        return []
    if any(alias_text(reader, alias) == writer.name.full for alias in reader.aliases):
        return []
    return [Reason("NAME_MISMATCH", (place, "/name"), f"expected: {writer.name.full}")]


def _sizes(reader: Fixed, writer: Fixed, place: Place) -> Reasons:
    if reader.size == writer.size:
        return []
    detail = f"expected: {writer.size}, found: {reader.size}"
    return [Reason("FIXED_SIZE_MISMATCH", (place, "/size"), detail)]


def _symbols(reader: Enum, writer: Enum, place: Place, run: _Run) -> Reasons:
    """Return a reason that names the symbols missing in the reader, if it has no default."""
    run.budget.spend((len(reader.symbols) + len(writer.symbols)) // PARTS_OF_A_STEP)
    missing = set(writer.symbols).difference(reader.symbols)
    if not missing or reader.default is not None:
        return []
    detail = f"[{', '.join(sorted(missing, key=utf16_order))}]"
    return [Reason("MISSING_ENUM_SYMBOLS", (place, "/symbols"), detail)]


def _records(reader: Record, writer: Record, place: Place, run: _Run) -> Comparison:
    run.budget.spend(len(reader.fields) // PARTS_OF_A_STEP)
    reasons = _names(reader, writer, place, run)
    for number, field in enumerate(reader.fields.values()):
        written = writer.fields.get(field.name)
        if field.aliases:
            run.budget.spend(len(field.aliases) // PARTS_OF_A_STEP)
            written = _written_field(field, writer, (place, f"/fields/{number}"))
        if written is None:
            if not field.has_default:
                reasons += yield from _missing_field(field, writer, (place, f"/fields/{number}"))
        elif not run.is_plain_match(field.type, written.type):
            reasons += yield field.type, written.type, (place, f"/fields/{number}/type")
    return reasons


def _missing_field(field: Field, writer: Record, place: Place) -> Comparison:
    """Return the reasons for a reader's field without a default that the writer's record lacks.

    If the field's type is an enum with a default, it is compared with the writer's record.
    """
    field_type = target(field.type)
    if isinstance(field_type, Enum) and field_type.default is not None:
        # Java compares an enum that has a default with the record, which never fits.
        return (yield field_type, writer, (place, "/type"))
    return [Reason("READER_FIELD_MISSING_DEFAULT_VALUE", place, field.name)]


def _written_field(field: Field, writer: Record, place: Place) -> Field | None:
    """Return the writer's field with the name or an alias of the reader's field, or None.

    Raises:
        _AmbiguousFieldError: several fields of the writer match.
    """
    names = [name for name in (field.name, *field.aliases) if name in writer.fields]
    if len(names) > 1:
        raise _AmbiguousFieldError(Reason("AMBIGUOUS_FIELD", place, field.name))
    return writer.fields[names[0]] if names else None
