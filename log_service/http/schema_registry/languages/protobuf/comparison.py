"""Finds the differences of two schemas that break a reader, as Confluent's registry does.

Messages are matched by name, and fields by number. Other differences are not returned. The rules,
and the kinds and texts of differences, are Confluent's. A text has two ``%s``: for the word that
names the reader's schema, then for the writer's. The caller fills in ``new`` and ``old``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from log_service.http.schema_registry.languages.language import Difference
from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
)
from log_service.http.schema_registry.languages.protobuf.option_values import is_required
from log_service.http.schema_registry.languages.protobuf.pool import Pool

DESCRIPTIONS = {
    "PACKAGE_CHANGED": (
        "The package at '{}' in the %s schema does not match the package in the %s schema"
    ),
    "MESSAGE_REMOVED": "The %s schema is missing a MESSAGE type at path '{}' in the %s schema",
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{}' in the %s schema does not match the %s schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{}' in the %s schema does not match its kind in the %s"
        " schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{}' in the %s schema does not match its type in the"
        " %s schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{}' in the %s schema does not match its label in"
        " the %s schema"
    ),
    "REQUIRED_FIELD_ADDED": (
        "A required field  at path '{}' in the %s schema is missing in the %s schema"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "The %s schema is missing a required field at path: '{}' in the %s schema"
    ),
    "ONEOF_FIELD_REMOVED": "The %s schema is missing a oneof field at path '{}' in the %s schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{}' in the %s schema are outside a oneof in the %s"
        " schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{}' in the %s schema is outside an existing oneof in the %s"
        " schema"
    ),
}
NUMBERS = dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool", "enum"), "number")
SCALAR_KINDS = NUMBERS | {
    "sint32": "signed number",
    "sint64": "signed number",
    "string": "text",
    "bytes": "text",
    "fixed32": "fixed32",
    "sfixed32": "fixed32",
    "fixed64": "fixed64",
    "sfixed64": "fixed64",
    "float": "float",
    "double": "double",
}
"""Scalars of one kind can be read as each other.

Source: protobuf.dev, "Updating a Message Type".
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two compared schemas, with the files that it needs."""

    file: FileDefinition
    pool: Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A message of the writer and one of the reader, by their full names."""

    writer: str
    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A field whose type is a message or a group in both schemas.

    ``pair`` has the two messages. The field is incompatible if they are.
    """

    path: tuple[str, ...]
    pair: Pair


Item = Difference | Link


def difference(kind: str, path: tuple[str, ...]) -> Difference:
    """Return a difference with Confluent's text for its kind."""
    place = "#/" + "/".join(path)
    description = DESCRIPTIONS[kind].format(place)
    text = f'{{errorType:"{kind}", description:"{description}"}}'
    return Difference(kind=kind, path=place, text=text)


def compare(reader: Side, writer: Side, budget: Budget) -> list[Difference]:
    """Return the reasons that keep the reader from reading the writer's values."""
    comparison = Comparison(reader, writer, budget)
    items = list(comparison.files())
    found: dict[Pair, list[Item]] = {}
    waiting = links(items)
    # Types of other files are compared if a field leads to them, each pair once.
    while waiting:
        link = waiting.pop()
        if link.pair not in found:
            found[link.pair] = list(comparison.pair(link.pair))
            waiting += links(found[link.pair])
    return flattened(items, found, broken_pairs(found))


def links(items: Iterable[Item]) -> list[Link]:
    """Return the items that are links."""
    return [each for each in items if isinstance(each, Link)]


def broken_pairs(found: dict[Pair, list[Item]]) -> set[Pair]:
    """Return the incompatible pairs of messages.

    A pair has a difference of its own, or a link that leads to an incompatible pair. ``found`` has
    the differences and links of each pair.
    """
    users: dict[Pair, list[Pair]] = {}
    for pair, items in found.items():
        for link in links(items):
            users.setdefault(link.pair, []).append(pair)
    waiting = [
        pair for pair, items in found.items() if any(isinstance(each, Difference) for each in items)
    ]
    broken = set(waiting)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in broken:
                broken.add(user)
                waiting.append(user)
    return broken


def flattened(
    items: list[Item], found: dict[Pair, list[Item]], broken: set[Pair]
) -> list[Difference]:
    """Return the differences in ``items``, and those of the broken pairs that their links reach.

    The differences of a pair of messages come once, before the first field that leads to the pair.
    Each field that leads to a broken pair is a difference, too.
    """
    out: list[Difference] = []
    shown: set[Pair] = set()
    stack: list[Item] = list(reversed(items))
    while stack:
        item = stack.pop()
        if isinstance(item, Difference):
            out.append(item)
        elif item.pair in broken:
            stack.append(difference("FIELD_NAMED_TYPE_CHANGED", item.path))
            if item.pair not in shown:
                shown.add(item.pair)
                stack += reversed(found[item.pair])
    return out


class Comparison:
    """Compares the messages of two schemas, in the order in which the writer has them.

    In a message, oneofs come first. Then come other fields, relocated fields and nested messages.
    """

    def __init__(self, reader: Side, writer: Side, budget: Budget) -> None:
        self._reader = reader
        self._writer = writer
        self._budget = budget
        self._same: dict[tuple[str, str], bool] = {}

    def __repr__(self) -> str:
        return f"<Comparison {self._budget!r}>"

    def files(self) -> Iterator[Item]:
        """Yield the differences of the packages and all messages in the schemas' own files."""
        if self._writer.file.node.package != self._reader.file.node.package:
            yield difference("PACKAGE_CHANGED", ())
        yield from self._types(self._writer.file.messages, self._reader.file.messages, ())

    def pair(self, pair: Pair) -> Iterator[Item]:
        """Yield the differences of two messages. Each path begins with the writer's message."""
        writer = self._writer.pool.messages[pair.writer]
        reader = self._reader.pool.messages[pair.reader]
        path = tuple(local_name(self._writer, pair.writer).split("."))
        yield from self._messages(writer, reader, path)

    def _types(
        self,
        writer: Iterable[MessageDefinition],
        reader: Iterable[MessageDefinition],
        path: tuple[str, ...],
    ) -> Iterator[Item]:
        readers = {each.node.name: each for each in reader}
        for each in writer:
            self._budget.spend()
            name = each.node.name
            if each.is_map_entry:
                continue
            if name not in readers:
                yield difference("MESSAGE_REMOVED", (*path, name))
            elif not readers[name].is_map_entry:
                yield from self._messages(each, readers[name], (*path, name))

    def _messages(
        self, writer: MessageDefinition, reader: MessageDefinition, path: tuple[str, ...]
    ) -> Iterator[Item]:
        old, new = Members(writer), Members(reader)
        yield from self._moves(old, new, path)
        for name, fields in old.oneofs.items():
            if name in new.oneofs:
                yield from self._oneof(fields, new, (*path, name), name)
        yield from self._plain(old, new, path)
        yield from self._relocated(old, new, path)
        groups = {each.type_name for each in writer.fields if each.kind == "group"}
        nested = [each for each in writer.messages if each.full_name not in groups]
        yield from self._types(nested, reader.messages, path)

    def _moves(self, old: "Members", new: "Members", path: tuple[str, ...]) -> Iterator[Item]:
        """Yield a difference for each oneof of the reader that may lose a value of the writer.

        The writer may set several fields of it, because it does not have them all in one oneof.
        """
        for name, fields in new.oneofs.items():
            moved = sum(number in old.plain for number in fields)
            existing = sum(number in old.oneof_of for number in fields)
            if moved > 1:
                yield difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", (*path, name))
            elif moved == 1 and existing:
                yield difference("FIELD_MOVED_TO_EXISTING_ONEOF", (*path, name))

    def _oneof(
        self, fields: dict[int, FieldDefinition], new: "Members", path: tuple[str, ...], name: str
    ) -> Iterator[Item]:
        for number in sorted(fields):
            inner = (*path, str(number))
            if number not in new.all:
                yield difference("ONEOF_FIELD_REMOVED", inner)
            elif number in new.oneofs[name]:
                yield from self._fields(fields[number], new.all[number], inner)

    def _plain(self, old: "Members", new: "Members", path: tuple[str, ...]) -> Iterator[Item]:
        """Yield the differences of fields that are in no oneof."""
        for number in sorted(old.plain.keys() | new.plain.keys()):
            writer, reader = old.plain.get(number), new.plain.get(number)
            inner = (*path, str(number))
            if writer is not None and reader is not None:
                yield from self._fields(writer, reader, inner)
            elif writer is not None and number not in new.all and is_required(writer):
                yield difference("REQUIRED_FIELD_REMOVED", inner)
            elif reader is not None and is_required(reader):
                yield difference("REQUIRED_FIELD_ADDED", inner)

    def _relocated(self, old: "Members", new: "Members", path: tuple[str, ...]) -> Iterator[Item]:
        """Yield the differences of fields that were moved into, out of or between oneofs."""
        for number in sorted(old.all.keys() & new.all.keys()):
            if old.oneof_of.get(number) != new.oneof_of.get(number):
                yield from self._fields(old.all[number], new.all[number], (*path, str(number)))

    def _fields(
        self, writer: FieldDefinition, reader: FieldDefinition, path: tuple[str, ...]
    ) -> Iterator[Item]:
        self._budget.spend()
        old, new = self._entry(self._writer, writer), self._entry(self._reader, reader)
        if old and new:
            for one, other in zip(old, new, strict=True):
                yield from self._values(one, other, path, has_labels=False)
        elif old or new:
            yield difference("FIELD_KIND_CHANGED", path)
        else:
            yield from self._values(writer, reader, path, has_labels=True)

    def _entry(self, side: Side, field: FieldDefinition) -> tuple[FieldDefinition, ...]:
        """Return the key and the value of a map. The tuple is empty if the field is not a map."""
        message = side.pool.message(field.type_name) if field.kind == "message" else None
        is_map = message is not None and message.is_map_entry and len(message.fields) == 2
        return message.fields if is_map and message is not None else ()

    def _values(
        self,
        writer: FieldDefinition,
        reader: FieldDefinition,
        path: tuple[str, ...],
        *,
        has_labels: bool,
    ) -> Iterator[Item]:
        old, new = SCALAR_KINDS.get(writer.kind), SCALAR_KINDS.get(reader.kind)
        if (old is None) != (new is None) or (writer.kind == "group") != (reader.kind == "group"):
            yield difference("FIELD_KIND_CHANGED", path)
        elif old is None:
            yield from self._named(writer, reader, path)
        elif old != new:
            yield difference("FIELD_SCALAR_KIND_CHANGED", path)
        elif has_labels and old != "text" and are_other_labels(writer, reader):
            yield difference("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _named(
        self, writer: FieldDefinition, reader: FieldDefinition, path: tuple[str, ...]
    ) -> Iterator[Item]:
        """Yield the difference, or the link, of two fields whose types are messages or groups.

        Names of messages are compared without their packages. There is no link for messages of the
        schemas' own files, because ``files`` compares these, nor if the types' files are the same.
        """
        if writer.kind == "group":
            yield Link(path=path, pair=Pair(writer=writer.type_name, reader=reader.type_name))
            return
        names = (
            local_name(self._writer, writer.type_name),
            local_name(self._reader, reader.type_name),
        )
        if names[0] != names[1]:
            yield difference("FIELD_NAMED_TYPE_CHANGED", path)
            return
        old = file_of(self._writer, writer.type_name)
        new = file_of(self._reader, reader.type_name)
        are_own = old is self._writer.file and new is self._reader.file
        if old and new and not are_own and not self._are_same(old, new):
            yield Link(path=path, pair=Pair(writer=writer.type_name, reader=reader.type_name))

    def _are_same(self, old: FileDefinition, new: FileDefinition) -> bool:
        """Return whether two files, and all files that they import, have the same statements."""
        key = (old.path, new.path)
        if key not in self._same:
            self._budget.spend(1 + len(old.imports))
            self._same[key] = old is new or (
                old.node == new.node
                and old.imports.keys() == new.imports.keys()
                and all(
                    self._are_same(old.imports[each], new.imports[each]) for each in old.imports
                )
            )
        return self._same[key]


class Members:
    """The fields of a message by number, inside and outside of oneofs.

    An optional field of proto3 counts as outside.
    """

    def __init__(self, message: MessageDefinition) -> None:
        self.plain: dict[int, FieldDefinition] = {}
        self.all: dict[int, FieldDefinition] = {}
        self.oneofs: dict[str, dict[int, FieldDefinition]] = {}
        self.oneof_of: dict[int, str] = {}
        for field in message.fields:
            self.all[field.number] = field
            if field.oneof is None or field.is_optional_of_proto3:
                self.plain[field.number] = field
            else:
                name = message.oneofs[field.oneof]
                self.oneofs.setdefault(name, {})[field.number] = field
                self.oneof_of[field.number] = name

    def __repr__(self) -> str:
        return f"<Members {len(self.all)}>"


def are_other_labels(writer: FieldDefinition, reader: FieldDefinition) -> bool:
    """Return whether both fields have a label, such as ``repeated``, and the labels differ."""
    labels = {writer.node.label, reader.node.label}
    return "" not in labels and len(labels) == 2


def file_of(side: Side, full_name: str) -> FileDefinition | None:
    """Return the file that defines a type, or None."""
    found = side.pool.names.get(full_name)
    return side.pool.files.get(found.path) if found else None


def local_name(side: Side, full_name: str) -> str:
    """Return a name without the package of its file."""
    file = file_of(side, full_name)
    package = f"{file.node.package}." if file and file.node.package else ""
    return full_name.removeprefix(package)
