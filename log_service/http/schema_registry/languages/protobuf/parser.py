"""Parses a ``.proto`` text to a tree: proto2, proto3, and the editions 2023 and 2024.

It only checks the grammar. Rules on names, numbers and types are in ``validation``.
"""

from log_service.http.schema_registry.languages.limits import Budget, SchemaLimits
from log_service.http.schema_registry.languages.protobuf.lexer import TokenKind
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_INT32,
    MAX_NUMBER,
    MIN_INT32,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    Import,
    Message,
    NamePart,
    OneOf,
    Option,
    ProtoFile,
    Quoted,
    Range,
    Reserved,
    ReservedName,
    Rpc,
    Service,
    Value,
)
from log_service.http.schema_registry.languages.protobuf.values import TokenReader

MAX_MESSAGE_DEPTH = 31
"""How deep protoc lets messages be nested."""
EDITIONS = ("2023", "2024")
LABELS = ("optional", "required", "repeated")
VISIBILITIES = ("export", "local")


def parse_text(source: Source, limits: SchemaLimits, budget: Budget) -> ProtoFile:
    """Return the tree of a text.

    Raises:
        InvalidSchemaError: the text breaks the grammar or a bound.
    """
    return Parser(source, limits, budget).file()


class FieldOptions:
    """Collects the options of one field, and separately its default and JSON name.

    These two are written like options, but are not fields of ``FieldOptions``.
    """

    def __init__(self) -> None:
        self.default: Value | None = None
        self.json_name: Quoted | None = None
        self.options: list[Option] = []


class Parser(TokenReader):
    """Reads statements by recursive descent, at most as deep as messages may be nested."""

    def __init__(self, source: Source, limits: SchemaLimits, budget: Budget) -> None:
        super().__init__(source, limits, budget)
        self.syntax = ""
        self.edition = ""

    @property
    def has_visibility(self) -> bool:
        """Whether the edition has the keywords ``export`` and ``local``."""
        return self.edition not in {"", "2023"}

    def file(self) -> ProtoFile:
        """Parse the whole file."""
        edition_at = self.lexer.token.at
        self.syntax_statement()
        package, package_at = "", -1
        imports: list[Import] = []
        options: list[Option] = []
        body: list[Message | Enum | Extend | Service] = []
        while self.lexer.token.kind is not TokenKind.END:
            self.budget.spend()
            if self.accept(";"):
                continue
            if self.is_at("package"):
                if package:
                    raise self.lexer.error("the file has a package already")
                package, package_at = self.package()
            elif self.is_at("import"):
                imports.append(self.import_statement())
            elif self.is_at("option"):
                options.append(self.option_statement())
            else:
                body.append(self.declaration())
        return ProtoFile(
            syntax=self.syntax,
            edition=self.edition,
            package=package,
            imports=tuple(imports),
            options=tuple(options),
            body=tuple(body),
            package_at=package_at,
            edition_at=edition_at,
        )

    def syntax_statement(self) -> None:
        """Parse ``syntax`` or ``edition``, which may only come first."""
        if not self.is_at("syntax", "edition"):
            return
        word = self.lexer.take().text
        self.expect("=")
        at = self.lexer.token.at
        value = self.text()
        known = EDITIONS if word == "edition" else ("proto2", "proto3")
        if value not in known:
            choice = " and ".join(known)
            raise self.source.error(at, f"{word} {value!r} is unknown: there are {choice}")
        self.expect(";")
        if word == "edition":
            self.edition = value
        else:
            self.syntax = value

    def package(self) -> tuple[str, int]:
        """Parse ``package name;``, and return the name and its position."""
        at = self.lexer.take().at
        name = self.dotted_name("the name of a package", may_be_full=False)
        self.expect(";")
        return name, at

    def import_statement(self) -> Import:
        """Parse ``import "path";``."""
        at = self.lexer.take().at
        is_kind = self.is_at("public", "weak") or (self.has_visibility and self.is_at("option"))
        kind = self.lexer.take().text if is_kind else ""
        path = self.text("the path of an import in quotes")
        self.expect(";")
        return Import(path=path, kind=kind, at=at)

    def visibility(self) -> str:
        """Parse ``export`` or ``local``, from edition 2024 on."""
        is_there = self.has_visibility and self.is_at(*VISIBILITIES)
        return self.lexer.take().text if is_there else ""

    def declaration(self) -> Message | Enum | Extend | Service:
        """Parse a message, an enum, an extension or a service."""
        visibility = self.visibility()
        if self.is_at("message"):
            return self.message(visibility)
        if self.is_at("enum"):
            return self.enum(visibility)
        if not visibility and self.is_at("extend"):
            return self.extend()
        if not visibility and self.is_at("service"):
            return self.service()
        raise self.expected("message, enum, extend, service, import, option or package")

    def message(self, visibility: str = "") -> Message:
        """Parse ``message Name { ... }``."""
        self.expect("message")
        at = self.lexer.token.at
        name = self.name("the name of a message")
        body, options = self.message_body()
        return Message(name=name, body=body, options=options, visibility=visibility, at=at)

    def message_body(self) -> "tuple[tuple[MessagePart, ...], tuple[Option, ...]]":
        """Parse the content of the braces of a message or group."""
        self.enter(self.expect("{"), MAX_MESSAGE_DEPTH)
        body: list[MessagePart] = []
        options: list[Option] = []
        while not self.accept("}"):
            self.budget.spend()
            if self.accept(";"):
                continue
            if self.is_at("option"):
                options.append(self.option_statement())
            else:
                body.append(self.message_part())
        self.leave()
        return tuple(body), tuple(options)

    def message_part(self) -> "MessagePart":
        """Parse one statement of a message."""
        part: MessagePart
        match self.lexer.token.text:
            case "message" | "enum":
                part = self.nested_type("")
            case "extensions":
                part = self.extensions()
            case "reserved":
                part = self.reserved()
            case "extend":
                part = self.extend()
            case "oneof":
                part = self.oneof()
            case "export" | "local" if self.has_visibility:
                part = self.nested_type(self.visibility())
            case _:
                part = self.field()
        return part

    def nested_type(self, visibility: str) -> Message | Enum:
        """Parse a message or an enum inside a message."""
        return self.message(visibility) if self.is_at("message") else self.enum(visibility)

    def field(self, *, has_label: bool = True) -> Field:
        """Parse a field, a map or a group."""
        at = self.lexer.token.at
        label = self.lexer.take().text if has_label and self.is_at(*LABELS) else ""
        type_at = self.lexer.token.at
        type_, map_key = self.field_type()
        name_at = self.lexer.token.at
        name = self.name("the name of a field")
        self.expect("=")
        number_at = self.lexer.token.at
        number = self.int32("the number of a field")
        found = self.field_options()
        group = None
        if type_ == "group":
            body, options = self.message_body()
            group = Message(name=name, body=body, options=options, at=name_at)
        else:
            self.expect(";")
        return Field(
            name=name,
            type=name if group else type_,
            number=number,
            label=label,
            map_key=map_key,
            group=group,
            default=found.default,
            json_name=found.json_name,
            options=tuple(found.options),
            at=at,
            type_at=type_at,
            number_at=number_at,
        )

    def field_type(self) -> tuple[str, str]:
        """Parse the type of a field, or the types of a map's values and keys.

        The second text is empty if the field is not a map.
        """
        type_ = self.dotted_name("the type of a field")
        if type_ != "map" or not self.accept("<"):
            return type_, ""
        key = self.dotted_name("the type of a map's keys")
        self.expect(",")
        value = self.dotted_name("the type of a map's values")
        self.expect(">")
        return value, key

    def field_options(self) -> FieldOptions:
        """Parse ``[name = value, ...]``, if it comes next."""
        found = FieldOptions()
        if not self.accept("["):
            return found
        while True:
            self.field_option(found)
            if not self.accept(","):
                break
        self.expect("]")
        return found

    def field_option(self, found: FieldOptions) -> None:
        """Parse one option of a field."""
        at = self.lexer.token.at
        option = self.option()
        is_pseudo = len(option.name) == 1 and not option.name[0].is_extension
        name = option.name[0].text if is_pseudo else ""
        if name == "default":
            if found.default is not None:
                raise self.source.error(at, "the default is given twice")
            found.default = option.value
        elif name == "json_name":
            if found.json_name is not None or not isinstance(option.value, Quoted):
                raise self.source.error(at, "json_name takes one string")
            found.json_name = option.value
        else:
            found.options.append(option)

    def list_of_options(self) -> tuple[Option, ...]:
        """Parse ``[name = value, ...]`` of an enum value or a range, if it comes next."""
        if not self.accept("["):
            return ()
        options = [self.option()]
        while self.accept(","):
            options.append(self.option())
        self.expect("]")
        return tuple(options)

    def option_statement(self) -> Option:
        """Parse ``option name = value;``."""
        self.expect("option")
        option = self.option()
        self.expect(";")
        return option

    def option(self) -> Option:
        """Parse ``name = value``."""
        self.budget.spend()
        at = self.lexer.token.at
        name = [self.name_part()]
        while self.accept("."):
            self.budget.spend()
            name.append(self.name_part())
        self.expect("=")
        return Option(name=tuple(name), value=self.value(), at=at)

    def name_part(self) -> NamePart:
        """Parse one part of an option's name."""
        if not self.accept("("):
            return NamePart(text=self.name("the name of an option"))
        text = self.dotted_name("the name of an extension")
        self.expect(")")
        return NamePart(text=text, is_extension=True)

    def oneof(self) -> OneOf:
        """Parse ``oneof name { ... }``."""
        self.expect("oneof")
        at = self.lexer.token.at
        name = self.name("the name of a oneof")
        self.expect("{")
        fields: list[Field] = []
        options: list[Option] = []
        while not self.accept("}"):
            self.budget.spend()
            if self.is_at("option"):
                options.append(self.option_statement())
            elif self.is_at(*LABELS):
                raise self.lexer.error("a field of a oneof has no label")
            else:
                fields.append(self.field(has_label=False))
        return OneOf(name=name, fields=tuple(fields), options=tuple(options), at=at)

    def extend(self) -> Extend:
        """Parse ``extend Name { ... }``."""
        self.expect("extend")
        at = self.lexer.token.at
        extendee = self.dotted_name("the name of a message")
        self.expect("{")
        fields = [self.field()]
        while not self.accept("}"):
            self.budget.spend()
            fields.append(self.field())
        return Extend(extendee=extendee, fields=tuple(fields), at=at)

    def extensions(self) -> Extensions:
        """Parse ``extensions 100 to 199;``."""
        at = self.expect("extensions").at
        ranges = [self.range(MAX_NUMBER)]
        while self.accept(","):
            ranges.append(self.range(MAX_NUMBER))
        options = self.list_of_options()
        self.expect(";")
        return Extensions(ranges=tuple(ranges), options=options, at=at)

    def reserved(self, most: int = MAX_NUMBER) -> Reserved:
        """Parse ``reserved 1, 3 to 5;`` or ``reserved "name";``."""
        at = self.expect("reserved").at
        values = [self.reserved_value(most)]
        while self.accept(","):
            values.append(self.reserved_value(most))
        self.expect(";")
        return Reserved(values=tuple(values), at=at)

    def reserved_value(self, most: int) -> Range | ReservedName:
        """Parse one name or range of a ``reserved`` statement."""
        token = self.lexer.token
        if token.kind is TokenKind.STRING:
            return ReservedName(text=self.text(), at=token.at)
        if token.kind is TokenKind.WORD:
            return ReservedName(text=self.name(), is_quoted=False, at=token.at)
        return self.range(most)

    def range(self, most: int) -> Range:
        """Parse ``1``, ``1 to 5`` or ``1 to max``, which means ``most``.

        Only enums have numbers below zero.
        """
        self.budget.spend()
        at = self.lexer.token.at
        is_signed = most == MAX_INT32
        start = self.int32("a number", is_signed=is_signed)
        if not self.accept("to"):
            return Range(start=start, at=at)
        end = most if self.accept("max") else self.int32("a number", is_signed=is_signed)
        return Range(start=start, end=end, at=at)

    def int32(self, wanted: str, *, is_signed: bool = False) -> int:
        """Parse an integer of 32 bits. An error calls it ``wanted``."""
        at = self.lexer.token.at
        sign = -1 if is_signed and self.accept("-") else 1
        value = sign * self.integer(wanted)
        if not MIN_INT32 <= value <= MAX_INT32:
            raise self.source.error(at, "the number is out of range")
        return value

    def enum(self, visibility: str = "") -> Enum:
        """Parse ``enum Name { ... }``."""
        self.expect("enum")
        at = self.lexer.token.at
        name = self.name("the name of an enum")
        self.expect("{")
        values: list[EnumValue] = []
        reserved: list[Reserved] = []
        options: list[Option] = []
        while not self.accept("}"):
            self.budget.spend()
            if self.accept(";"):
                continue
            if self.is_at("option"):
                options.append(self.option_statement())
            elif self.is_at("reserved"):
                reserved.append(self.reserved(MAX_INT32))
            else:
                values.append(self.enum_value())
        return Enum(
            name=name,
            values=tuple(values),
            reserved=tuple(reserved),
            options=tuple(options),
            visibility=visibility,
            at=at,
        )

    def enum_value(self) -> EnumValue:
        """Parse ``NAME = number;``."""
        at = self.lexer.token.at
        name = self.name("the name of a value")
        self.expect("=")
        number = self.int32("the number of a value", is_signed=True)
        options = self.list_of_options()
        self.expect(";")
        return EnumValue(name=name, number=number, options=options, at=at)

    def service(self) -> Service:
        """Parse ``service Name { ... }``."""
        self.expect("service")
        at = self.lexer.token.at
        name = self.name("the name of a service")
        self.expect("{")
        rpcs: list[Rpc] = []
        options: list[Option] = []
        while not self.accept("}"):
            self.budget.spend()
            if self.accept(";"):
                continue
            if self.is_at("option"):
                options.append(self.option_statement())
            else:
                rpcs.append(self.rpc())
        return Service(name=name, rpcs=tuple(rpcs), options=tuple(options), at=at)

    def rpc(self) -> Rpc:
        """Parse ``rpc Name (Request) returns (Response);``."""
        self.expect("rpc")
        at = self.lexer.token.at
        name = self.name("the name of a method")
        is_request_stream, request = self.rpc_type()
        self.expect("returns")
        is_response_stream, response = self.rpc_type()
        return Rpc(
            name=name,
            request=request,
            response=response,
            is_request_stream=is_request_stream,
            is_response_stream=is_response_stream,
            options=self.rpc_options(),
            at=at,
        )

    def rpc_type(self) -> tuple[bool, str]:
        """Parse ``(Name)`` or ``(stream Name)``. Return whether it is a stream, and the name."""
        self.expect("(")
        is_stream = self.accept("stream")
        name = self.dotted_name("the name of a message")
        self.expect(")")
        return is_stream, name

    def rpc_options(self) -> tuple[Option, ...]:
        """Parse the options of a method, or its semicolon."""
        if not self.accept("{"):
            self.expect(";")
            return ()
        options: list[Option] = []
        while not self.accept("}"):
            self.budget.spend()
            if not self.accept(";"):
                options.append(self.option_statement())
        return tuple(options)


MessagePart = Field | OneOf | Message | Enum | Extend | Extensions | Reserved
