"""Builds the definitions of a file from its tree: full names first, then types.

With ``is_strict`` an unknown import or type and a repeated name are errors. Otherwise everything
that can be resolved is kept, because a laxer registry may have accepted the schema of an old
record.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    SCALARS,
    TYPES,
    EnumDefinition,
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
    MethodDefinition,
    NameKind,
    ServiceDefinition,
    joined,
)
from log_service.http.schema_registry.languages.protobuf.features import (
    Features,
    features_of,
    with_options,
)
from log_service.http.schema_registry.languages.protobuf.pool import (
    Found,
    Missing,
    Pool,
    packages,
    reachable,
)
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import (
    Enum,
    Extend,
    Field,
    Message,
    NamePart,
    OneOf,
    Option,
    ProtoFile,
    Service,
    Word,
    has_flag,
)

MAX_PACKAGE_LENGTH = 511


def link(
    file: ProtoFile, source: Source, pool: Pool, budget: Budget, *, is_strict: bool
) -> FileDefinition:
    """Return the definitions of a file, and add them to the pool.

    Raises:
        InvalidSchemaError: linking takes too many steps, or the package's name is too long. With
            ``is_strict`` also: an import or a type is unknown, an import or a name is repeated, or
            a type is local to another file.
    """
    if is_strict:
        check_imports(file, source, pool)
    imports = {each.path: pool.files[each.path] for each in file.imports if each.path in pool.files}
    names = Names(source, pool, budget, is_strict=is_strict)
    names.file(file)
    pool.add_names(source.path, file.package, names.found)
    linker = Linker(file, source, pool, imports, budget, is_strict=is_strict)
    definition = linker.file(names.found)
    pool.add(definition)
    return definition


def check_imports(file: ProtoFile, source: Source, pool: Pool) -> None:
    """Check that each imported file exists and is imported once.

    Raises:
        InvalidSchemaError: an import is missing or repeated.
    """
    seen = set()
    for each in file.imports:
        if each.path in seen:
            raise source.error(each.at, f"{each.path!r} is imported twice")
        seen.add(each.path)
        if each.path not in pool.files:
            raise source.error(
                each.at, f"the import {each.path!r} is missing: add a reference with this name"
            )


class Names:
    """Collects the full names that a file defines, with their kinds."""

    def __init__(self, source: Source, pool: Pool, budget: Budget, *, is_strict: bool) -> None:
        self.found: dict[str, NameKind] = {}
        self._source = source
        self._pool = pool
        self._budget = budget
        self._is_strict = is_strict

    def __repr__(self) -> str:
        return f"<Names {len(self.found)}>"

    def file(self, file: ProtoFile) -> None:
        """Collect all names that a file defines."""
        if len(file.package) > MAX_PACKAGE_LENGTH:
            raise self._source.error(file.package_at, "the name of the package is too long")
        if self._is_strict:
            self._check_package(file)
        for each in file.body:
            self._element(each, file.package)

    def _check_package(self, file: ProtoFile) -> None:
        for name in packages(file.package):
            taken = self._pool.names.get(name)
            if taken is not None:
                raise self._source.error(
                    file.package_at, f"{name} is {taken.kind} in {taken.path!r}, not a package"
                )

    def _element(self, element: object, scope: str) -> None:
        match element:
            case Message():
                self._message(element, scope)
            case Enum():
                self._add(scope, element.name, NameKind.ENUM, element.at)
                for value in element.values:
                    self._add(scope, value.name, NameKind.VALUE, value.at)
            case Field():
                self._field(element, scope, NameKind.FIELD)
            case OneOf():
                self._add(scope, element.name, NameKind.ONEOF, element.at)
                for field in element.fields:
                    self._field(field, scope, NameKind.FIELD)
            case Extend():
                for field in element.fields:
                    self._field(field, scope, NameKind.EXTENSION)
            case Service():
                self._add(scope, element.name, NameKind.SERVICE, element.at)
                for rpc in element.rpcs:
                    inner = joined(scope, element.name)
                    self._add(inner, rpc.name, NameKind.METHOD, rpc.at)

    def _message(self, message: Message, scope: str) -> None:
        self._add(scope, message.name, NameKind.MESSAGE, message.at)
        for each in message.body:
            self._element(each, joined(scope, message.name))

    def _field(self, field: Field, scope: str, kind: NameKind) -> None:
        self._add(scope, field_name(field), kind, field.at)
        if field.group:
            self._message(field.group, scope)
        if field.map_key:
            # The message of its entries makes a map as much work as several fields.
            self._budget.spend(4)
            self._message(entry_message(field), scope)

    def _add(self, scope: str, name: str, kind: NameKind, at: int) -> None:
        full_name = joined(scope, name)
        self._budget.spend(1 + len(full_name) // 64)
        if self._is_strict:
            self._check_free(full_name, scope, kind, at)
        self.found.setdefault(full_name, kind)

    def _check_free(self, full_name: str, scope: str, kind: NameKind, at: int) -> None:
        taken = self.found.get(full_name)
        place = f"in {scope}" if scope else "in this file"
        if taken is None and full_name in self._pool.names:
            taken = self._pool.names[full_name].kind
            place = f"in {self._pool.names[full_name].path!r}"
        if taken is None and full_name in self._pool.package_files:
            taken, place = NameKind.PACKAGE, "already"
        if taken is not None:
            hint = ": the values of an enum stand beside it" if kind is NameKind.VALUE else ""
            raise self._source.error(at, f"{full_name} is already {taken} {place}{hint}")


class Linker:
    """Resolves the names of types in one file, and builds its definitions."""

    def __init__(
        self,
        file: ProtoFile,
        source: Source,
        pool: Pool,
        imports: Mapping[str, FileDefinition],
        budget: Budget,
        *,
        is_strict: bool,
    ) -> None:
        self._file = file
        self._source = source
        self._pool = pool
        self._imports = imports
        self._budget = budget
        self._visible = reachable(source.path, imports)
        self._is_strict = is_strict
        self._resolved: dict[tuple[str, str], Found | Missing] = {}

    def __repr__(self) -> str:
        return f"<Linker of {self._source.path!r}>"

    def file(self, names: Mapping[str, NameKind]) -> FileDefinition:
        """Return the definitions of the file."""
        body, package = self._file.body, self._file.package
        features = features_of(self._file)
        return FileDefinition(
            path=self._source.path,
            source=self._source,
            node=self._file,
            features=features,
            imports=self._imports,
            names=names,
            messages=self._messages(body, package, features),
            enums=enums_in(body, package, features),
            extensions=self._extensions(body, package, features),
            services=tuple(self._service(each) for each in body if isinstance(each, Service)),
        )

    def _messages(
        self, body: Iterable[object], scope: str, features: Features
    ) -> tuple[MessageDefinition, ...]:
        return tuple(self._message(each, scope, features) for each in messages_in(body))

    def _message(self, node: Message, scope: str, inherited: Features) -> MessageDefinition:
        full_name = joined(scope, node.name)
        features = with_options(inherited, node.options)
        fields, oneofs = self._fields(node, full_name, features)
        return MessageDefinition(
            node=node,
            full_name=full_name,
            features=features,
            fields=fields,
            oneofs=oneofs,
            messages=self._messages(node.body, full_name, features),
            enums=enums_in(node.body, full_name, features),
            extensions=self._extensions(node.body, full_name, features),
            is_map_entry=is_map_entry(node),
        )

    def _fields(
        self, node: Message, scope: str, features: Features
    ) -> tuple[tuple[FieldDefinition, ...], tuple[str, ...]]:
        fields: list[FieldDefinition] = []
        oneofs: list[str] = []
        for each in node.body:
            if isinstance(each, Field):
                fields.append(self._field(each, scope, features))
            elif isinstance(each, OneOf):
                inner = with_options(features, each.options)
                fields += [
                    replace(self._field(field, scope, inner), oneof=len(oneofs))
                    for field in each.fields
                ]
                oneofs.append(each.name)
        return with_oneofs_of_proto3(fields, oneofs)

    def _field(self, node: Field, scope: str, inherited: Features) -> FieldDefinition:
        kind, type_name = self._type(node, scope)
        return FieldDefinition(
            node=node,
            name=field_name(node),
            full_name=joined(scope, field_name(node)),
            label="repeated" if node.map_key else node.label or "optional",
            kind=kind,
            type_name=type_name,
            features=with_options(inherited, node.options),
            is_optional_of_proto3=self._file.syntax == "proto3" and node.label == "optional",
        )

    def _type(self, node: Field, scope: str) -> tuple[str, str]:
        if node.map_key:
            return "message", joined(scope, map_entry_name(node.name))
        if node.group:
            return "group", joined(scope, node.name)
        if node.type in SCALARS:
            return node.type, ""
        found = self._resolve(node.type, scope, node.type_at, is_type=True)
        if found is None:
            return "", node.type
        if found.kind not in TYPES:
            raise self._source.error(node.type_at, f"{node.type} is {found.kind}, not a type")
        return "message" if found.kind is NameKind.MESSAGE else "enum", found.full_name

    def _extensions(
        self, body: Iterable[object], scope: str, features: Features
    ) -> tuple[FieldDefinition, ...]:
        found = []
        for extend in body:
            if isinstance(extend, Extend):
                extendee = self._message_name(extend.extendee, scope, extend.at)
                found += [
                    replace(self._field(field, scope, features), extendee=extendee)
                    for field in extend.fields
                ]
        return tuple(found)

    def _service(self, node: Service) -> ServiceDefinition:
        full_name = joined(self._file.package, node.name)
        methods = [
            MethodDefinition(
                node=rpc,
                full_name=joined(full_name, rpc.name),
                request=self._message_name(rpc.request, full_name, rpc.at),
                response=self._message_name(rpc.response, full_name, rpc.at),
            )
            for rpc in node.rpcs
        ]
        return ServiceDefinition(node=node, full_name=full_name, methods=tuple(methods))

    def _message_name(self, name: str, scope: str, at: int) -> str:
        found = self._resolve(name, scope, at, is_type=False)
        if found is None:
            return ""
        if found.kind is not NameKind.MESSAGE:
            raise self._source.error(at, f"{name} is {found.kind}, not a message")
        return found.full_name

    def _resolve(self, name: str, scope: str, at: int, *, is_type: bool) -> Found | None:
        key = (name, scope)
        if key not in self._resolved:
            found = self._pool.resolve(name, scope, self._visible, self._budget, is_type=is_type)
            self._resolved[key] = found
        found = self._resolved[key]
        if isinstance(found, Found):
            if self._is_strict and self._is_local_elsewhere(found):
                raise self._source.error(at, f"{name} is local to {found.path!r}")
            return found
        if self._is_strict:
            raise self._source.error(at, missing_sentence(name, found))
        return self._pool.names.get(name.removeprefix("."))

    def _is_local_elsewhere(self, found: Found) -> bool:
        """Return whether a type is local to another file, as edition 2024 allows."""
        message, enum = (
            self._pool.messages.get(found.full_name),
            self._pool.enums.get(found.full_name),
        )
        definition = message or enum
        file = self._pool.files.get(found.path)
        if definition is None or file is None or found.path == self._source.path:
            return False
        if definition.node.visibility:
            return definition.node.visibility == "local"
        default = definition.features.default_symbol_visibility
        is_inner = definition.scope != file.node.package
        return default in {"LOCAL_ALL", "STRICT"} or (default == "EXPORT_TOP_LEVEL" and is_inner)


def missing_sentence(name: str, missing: Missing) -> str:
    """Return why a name cannot be used."""
    if missing.path:
        return f"{name} is defined in {missing.path!r}, which is not imported"
    if missing.tried and missing.tried != name.removeprefix("."):
        return (
            f"{name} means {missing.tried} here, which is not defined, because the innermost"
            " scope is searched first: begin the name with a dot to begin at the outermost scope"
        )
    return f"{name} is not defined"


def field_name(field: Field) -> str:
    """Return the name of a field. A group's field has the name of its message in lower case."""
    return field.name.lower() if field.group else field.name


def map_entry_name(field: str) -> str:
    """Return the name of the entry message of a map field."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def entry_message(field: Field) -> Message:
    """Return the entry message of a map field, as descriptors have it."""
    key = Field(name="key", type=field.map_key, number=1, at=field.at, type_at=field.type_at)
    value = Field(name="value", type=field.type, number=2, at=field.at, type_at=field.type_at)
    option = Option(name=(NamePart(text="map_entry"),), value=Word(text="true"))
    name = map_entry_name(field.name)
    return Message(name=name, body=(key, value), options=(option,), at=field.at)


def is_map_entry(message: Message) -> bool:
    """Return whether a message has the option ``map_entry``, as the entry message of a map has."""
    return has_flag(message.options, "map_entry")


def messages_in(body: Iterable[object]) -> Iterator[Message]:
    """Yield the messages of a body in the order of descriptors, with those of maps and groups."""
    for each in body:
        match each:
            case Message():
                yield each
            case Field(group=Message() as group):
                yield group
            case Field(map_key=key) if key:
                yield entry_message(each)
            case OneOf() | Extend():
                yield from messages_in(each.fields)


def enums_in(body: Iterable[object], scope: str, inherited: Features) -> tuple[EnumDefinition, ...]:
    """Return the definitions of the enums in the body of a file or message."""
    return tuple(
        EnumDefinition(
            node=each,
            full_name=joined(scope, each.name),
            features=with_options(inherited, each.options),
        )
        for each in body
        if isinstance(each, Enum)
    )


def with_oneofs_of_proto3(
    fields: list[FieldDefinition], oneofs: list[str]
) -> tuple[tuple[FieldDefinition, ...], tuple[str, ...]]:
    """Give each optional field of proto3 a oneof of its own. Return all fields and names of oneofs.

    The new oneofs come after those of the text.
    """
    taken = {*oneofs, *(field.name for field in fields)}
    for index, field in enumerate(fields):
        if field.is_optional_of_proto3:
            name = f"_{field.name}"
            while name in taken:
                name = "X" + name
            taken.add(name)
            fields[index] = replace(field, oneof=len(oneofs))
            oneofs.append(name)
    return tuple(fields), tuple(oneofs)
