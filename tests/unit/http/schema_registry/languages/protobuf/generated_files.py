"""Makes random valid ``.proto`` files, of all that the language has.

One seed makes one family: a base file with types and custom options, and a file that imports it.
``is_plain`` leaves out what Wire's parser does not know: editions, weak imports, groups with nested
types, options of extension ranges, octal numbers, and escapes of more than one byte.
"""

import random
from dataclasses import dataclass

SCALARS = [
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
]
NUMBERS = [each for each in SCALARS if each not in {"string", "bytes"}]
KEYS = [each for each in SCALARS if each not in {"double", "float", "bytes"}]
HOLDERS = ["File", "Message", "Field", "Oneof", "Enum", "EnumValue", "Service", "Method"]
"""Elements that have custom options here."""
INTEGERS = {
    "int32": 2**31 - 1,
    "sint32": 2**31 - 1,
    "sfixed32": 2**31 - 1,
    "int64": 2**63 - 1,
    "sint64": 2**63 - 1,
    "sfixed64": 2**63 - 1,
    "uint32": 2**32 - 1,
    "fixed32": 2**32 - 1,
    "uint64": 2**64 - 1,
    "fixed64": 2**64 - 1,
}
SYNTAXES = ("proto2", "proto3", "2023", "2024")
EDITIONS = {"2023", "2024"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A type that fields may have."""

    full_name: str
    is_enum: bool = False
    values: tuple[str, ...] = ()
    is_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOption:
    """An extension of options: where it may stand, and what its values are."""

    full_name: str
    holder: str
    type: str
    is_repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFile:
    """A file with its path, and what others may use of it."""

    path: str
    text: str
    types: tuple[Type, ...]
    options: tuple[CustomOption, ...]


@dataclass(slots=True, kw_only=True)
class Names:
    """Counts names, so that each is there once."""

    prefix: str
    count: int = 0

    def next(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.prefix}{self.count}"


def family(seed: int, *, is_plain: bool = False) -> tuple[GeneratedFile, GeneratedFile]:
    """Return a base file and a file that imports it."""
    rng = random.Random(seed)
    syntaxes = SYNTAXES[:2] if is_plain else SYNTAXES
    base = FileMaker(rng, f"{seed}a", rng.choice(syntaxes), is_plain=is_plain).file(None)
    return base, FileMaker(rng, f"{seed}b", rng.choice(syntaxes), is_plain=is_plain).file(base)


class FileMaker:
    """Writes one file."""

    def __init__(
        self, rng: random.Random, number: str, syntax: str, *, is_plain: bool = False
    ) -> None:
        self.rng = rng
        self.names = Names(prefix=number)
        self.syntax = syntax
        self.is_plain = is_plain
        self.number = number
        depth = rng.randint(0, 3)
        self.package = ".".join([*["acme", "shop"][: max(0, depth - 1)], f"p{number}"][-depth:])
        self.package = self.package if depth else ""
        self.types: list[Type] = []
        self.own_types: list[Type] = []
        self.options: list[CustomOption] = []
        self.own_options: list[CustomOption] = []

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def space(self) -> str:
        """White space, sometimes with a comment."""
        return self.rng.choice([" ", " ", " ", " ", "\n", "  ", "\t", " /* why */ ", "\n// so\n"])

    def file(self, base: GeneratedFile | None) -> GeneratedFile:
        """Return the file."""
        imports = ["google/protobuf/descriptor.proto"]
        if base:
            self.types += base.types
            self.options += base.options
            imports.append(base.path)
        if self.chance(0.4):
            imports.append("google/protobuf/timestamp.proto")
            self.types.append(Type(full_name="google.protobuf.Timestamp"))
        self.option_type = ""
        parts = [self.option_message(), *self.option_extensions()]
        parts += [self.message(self.package, 0) for _ in range(self.rng.randint(1, 3))]
        parts += [self.enum(self.package) for _ in range(self.rng.randint(0, 2))]
        parts += [self.service() for _ in range(self.rng.randint(0, 2))]
        if self.syntax != "proto3" and self.chance(0.5):
            parts.append(self.extendable())
        self.rng.shuffle(parts)
        head = [self.first_line()]
        if self.package:
            head.append(f"package{self.space()}{self.package}{self.rng.choice(['', ' '])};")
        kinds = ["", "", "public "]
        if not self.is_plain and self.syntax != "2024":
            kinds.append("weak ")
        head += [f'import {self.rng.choice(kinds)}"{each}";' for each in imports]
        head += [f"option {each};" for each in self.file_options()]
        text = "\n".join([*head, *parts])
        path = f"made/{self.number}.proto"
        return GeneratedFile(
            path=path, text=text, types=tuple(self.own_types), options=tuple(self.own_options)
        )

    def first_line(self) -> str:
        if self.syntax in EDITIONS:
            return f'edition = "{self.syntax}";'
        if self.syntax == "proto2" and self.chance(0.3):
            return "// no syntax"
        return f'syntax = "{self.syntax}";'

    def file_options(self) -> list[str]:
        found = []
        if self.chance(0.5):
            found.append(f"java_package = {self.string('com.acme')}")
        if self.chance(0.3):
            found.append(f"optimize_for = {self.rng.choice(['SPEED', 'CODE_SIZE'])}")
        if self.chance(0.3) and self.syntax != "2024":
            found.append(f"java_multiple_files = {self.rng.choice(['true', 'false'])}")
        if self.chance(0.3):
            found.append('go_package = "acme.example/shop" ";shop"')
        return [*found, *self.custom("File", self.package)]

    def string(self, text: str | None = None) -> str:
        """Return a string with quotes of either kind, and with escapes."""
        text = text if text is not None else self.some_text()
        quote = self.rng.choice("\"'")
        return quote + "".join(self.escaped(each, quote) for each in text) + quote

    def some_text(self) -> str:
        letters = "abcXYZ019 _-.,:/{}[]()<>;=\"'\\\n\t\r\a\b\f\v?é漢"
        return "".join(self.rng.choice(letters) for _ in range(self.rng.randint(0, 8)))

    def escaped(self, character: str, quote: str) -> str:
        simple = {"\n": "n", "\t": "t", "\r": "r", "\a": "a", "\b": "b", "\f": "f", "\v": "v"}
        if character in simple:
            return "\\" + simple[character]
        if character in {"\\", quote}:
            return "\\" + character
        if ord(character) < 128 and self.chance(0.1):
            return self.rng.choice([f"\\x{ord(character):02x}", f"\\{ord(character):03o}"])
        if not self.is_plain and ord(character) > 127 and self.chance(0.5):
            return f"\\u{ord(character):04x}"
        return character

    def integer(self, type_: str) -> str:
        """Return an integer of a type, in one of the ways to write it."""
        most = INTEGERS[type_]
        number = self.rng.choice([0, 1, self.rng.randint(0, 300), most, self.rng.randint(0, most)])
        sign = "-" if not type_.startswith(("u", "f")) and self.chance(0.3) else ""
        ways = [str(number), str(number), f"0x{number:x}", f"0X{number:X}"]
        if not self.is_plain:
            ways.append(f"0{number:o}")
        return sign + self.rng.choice(ways)

    def scalar(self, type_: str) -> str:
        """Return a value of a scalar type."""
        if type_ in INTEGERS:
            return self.integer(type_)
        if type_ == "bool":
            return self.rng.choice(["true", "false"])
        if type_ in {"float", "double"}:
            ways = [
                "0",
                "1.5",
                "-2.25",
                "1e3",
                "1E-3",
                "0.1",
                "inf",
                "-inf",
                "nan",
                "3.",
                "123456789",
            ]
            return self.rng.choice(ways)
        if type_ == "bytes" and not self.is_plain:
            return self.rng.choice([self.string(), r'"\xff\x00\177"', r'"\377\0a"'])
        return self.string()

    def option_message(self) -> str:
        """Return a message whose fields have all types, for options."""
        name = self.names.next("Opt")
        self.option_type = f"{self.package}.{name}".lstrip(".")
        label = "optional " if self.syntax == "proto2" else ""
        lines = [f"{label}{each} a_{each} = {at};" for at, each in enumerate(SCALARS, 1)]
        lines += [f"repeated {each} r_{each} = {at};" for at, each in enumerate(SCALARS, 21)]
        lines.append(f"{label}{name} inner = 50;")
        lines.append(f"repeated {name} inners = 51;")
        lines.append("map<string, int32> counts = 52;")
        lines.append(f"{label}Color color = 53;")
        lines.append("oneof choice { int32 left = 54; string right = 55; }")
        lines.append("enum Color { RED = 0; GREEN = 1; BLUE = 2; }")
        self.rng.shuffle(lines)
        return f"message {name} {{ {' '.join(lines)} }}"

    def option_extensions(self) -> list[str]:
        """Return extensions of options, each with its own number."""
        found = []
        start = 60_000 if self.number.endswith("b") else 50_000
        for holder in HOLDERS:
            lines = []
            for at, type_ in enumerate(
                [self.option_type, self.rng.choice(SCALARS), self.rng.choice(SCALARS)]
            ):
                is_repeated = self.chance(0.3)
                name = self.names.next("o")
                full_name = f"{self.package}.{name}".lstrip(".")
                option = CustomOption(
                    full_name=full_name, holder=holder, type=type_, is_repeated=is_repeated
                )
                self.options.append(option)
                self.own_options.append(option)
                label = "repeated " if is_repeated else self.singular()
                type_text = self.relative(type_, self.package) if at == 0 else type_
                lines.append(f"{label}{type_text} {name} = {start + at};")
            found.append(
                f"extend {self.relative(f'google.protobuf.{holder}Options', self.package)} {{\n{' '.join(lines)} }}"
            )
        return found

    def singular(self) -> str:
        """Return the label of one value, as the syntax has it."""
        if self.syntax == "proto2":
            return "optional "
        return "optional " if self.syntax == "proto3" and self.chance(0.3) else ""

    def relative(self, full_name: str, scope: str) -> str:
        """Return a name as it may be written in a scope."""
        ways = [f".{full_name}", full_name]
        around = scope
        while around:
            if full_name.startswith(f"{around}."):
                ways.append(full_name.removeprefix(f"{around}."))
            around = around.rpartition(".")[0]
        return self.rng.choice(ways)

    def custom(self, holder: str, scope: str, most: int = 2) -> list[str]:
        """Return settings of custom options."""
        if not self.chance(0.35):
            return []
        fitting = [each for each in self.options if each.holder == holder]
        chosen = self.rng.sample(fitting, min(len(fitting), self.rng.randint(1, most)))
        return [setting for each in chosen for setting in self.settings(each, scope)]

    def settings(self, option: CustomOption, scope: str) -> list[str]:
        """Return one or more settings of one option."""
        name = f"({self.relative(option.full_name, scope)})"
        if option.type in SCALARS:
            count = self.rng.randint(1, 3) if option.is_repeated else 1
            return [f"{name} = {self.scalar(option.type)}" for _ in range(count)]
        if option.is_repeated or self.chance(0.5):
            return [f"{name} = {self.aggregate(2)}"]
        fields = self.rng.sample(SCALARS, self.rng.randint(1, 3))
        found = [f"{name}.a_{each} = {self.scalar(each)}" for each in fields]
        if self.chance(0.4):
            found += [f"{name}.inner.a_{each} = {self.scalar(each)}" for each in fields]
        if self.chance(0.2):
            found.append(f"{name}.color = BLUE")
        return found

    def aggregate(self, depth: int) -> str:
        """Return a value of the message for options, in the text format."""
        singles = self.rng.sample(SCALARS, self.rng.randint(0, 3))
        entries = [f"a_{type_}: {self.scalar(type_)}" for type_ in singles]
        for type_ in self.rng.sample(SCALARS, self.rng.randint(0, 2)):
            values = [self.scalar(type_) for _ in range(self.rng.randint(0, 3))]
            if self.chance(0.5):
                entries.append(f"r_{type_}: [{', '.join(values)}]")
            else:
                entries += [f"r_{type_}: {each}" for each in values]
        if depth and self.chance(0.5):
            colon = self.rng.choice(["", ":"])
            entries.append(f"inner{colon} {self.aggregate(depth - 1)}")
        if depth and self.chance(0.3):
            entries += [f"inners {self.aggregate(depth - 1)}" for _ in range(2)]
        if self.chance(0.3):
            entries.append('counts { key: "a" value: 1 }')
        if self.chance(0.3):
            entries.append(self.rng.choice(["color: GREEN", "left: 5", 'right: "x"']))
        between = self.rng.choice([" ", ", ", "; ", "\n"])
        return "{ " + between.join(entries) + " }"

    def in_brackets(self, options: list[str]) -> str:
        """Return options of a field."""
        return f" [{(',' + self.space()).join(options)}]" if options else ""

    def message(self, scope: str, depth: int) -> str:
        """Return a message."""
        name = self.names.next("M")
        full_name = f"{scope}.{name}".lstrip(".")
        visibility = self.visibility()
        self.add_type(Type(full_name=full_name), visibility, is_inner=depth > 0)
        parts = []
        if depth < 3 and self.chance(0.5):
            parts += [self.message(full_name, depth + 1) for _ in range(self.rng.randint(1, 2))]
        if self.chance(0.4):
            parts.append(self.enum(full_name))
        numbers = Numbers(self.rng)
        parts += [self.field(full_name, numbers) for _ in range(self.rng.randint(0, 5))]
        parts += [self.map(full_name, numbers) for _ in range(self.rng.randint(0, 2))]
        if self.chance(0.4):
            parts.append(self.oneof(full_name, numbers))
        if self.syntax == "proto2" and self.chance(0.2):
            parts.append(self.group(full_name, numbers))
        if self.chance(0.3):
            parts.append(self.reserved(numbers))
        if self.syntax != "proto3" and self.chance(0.2):
            parts.append(self.extensions(full_name, numbers))
        if self.chance(0.2):
            parts.append("option deprecated = true;")
        parts += [f"option {each};" for each in self.custom("Message", scope)]
        self.rng.shuffle(parts)
        inner = "\n".join(parts)
        end = self.rng.choice(["", "", ";"])
        return f"{visibility}message{self.space()}{name} {{\n{inner}\n}}{end}"

    def visibility(self) -> str:
        """Return a word of edition 2024 before a type."""
        is_there = self.syntax == "2024" and self.chance(0.3)
        return self.rng.choice(["export ", "local "]) if is_there else ""

    def add_type(self, made: Type, visibility: str, *, is_inner: bool) -> None:
        """Note a type. In edition 2024 other files see only those that are exported."""
        self.types.append(made)
        is_seen = visibility == "export " or (not visibility and not is_inner)
        if self.syntax != "2024" or is_seen:
            self.own_types.append(made)

    def extendable(self) -> str:
        """Return a message that is extended, at the top and in itself."""
        name = self.names.next("X")
        label = "optional " if self.syntax == "proto2" else ""
        full_name = f"{self.package}.{name}".lstrip(".")
        own = self.relative(full_name, full_name)
        return (
            f"message {name} {{ extensions 100 to 199, 500, 1000 to max;"
            f" extend {own} {{ {label}int32 {self.names.next('e')} = 100; }} }}\n"
            f"extend {self.relative(full_name, self.package)} {{"
            f" repeated string {self.names.next('e')} = 101;"
            f" {label}{self.relative(full_name, self.package)} {self.names.next('e')} = 500; }}"
        )

    def usable(self) -> list[Type]:
        """Return the types that a field may have. Proto3 takes no closed enums."""
        return [
            each
            for each in self.types
            if not each.is_enum or each.is_open or self.syntax == "proto2"
        ]

    def field(self, scope: str, numbers: "Numbers") -> str:
        """Return a field."""
        name = self.names.next("f")
        type_ = self.rng.choice(self.usable()) if self.chance(0.3) else None
        scalar = self.rng.choice(SCALARS)
        label = "repeated " if self.chance(0.25) else self.singular()
        if self.syntax == "proto2" and self.chance(0.1):
            label = "required "
        text = self.relative(type_.full_name, scope) if type_ else scalar
        options = self.field_options(type_, scalar, label, scope)
        number = numbers.next()
        shown = f"0x{number:x}" if self.chance(0.1) else str(number)
        return f"{label}{text}{self.space()}{name} = {shown}{self.in_brackets(options)};"

    def field_options(self, type_: Type | None, scalar: str, label: str, scope: str) -> list[str]:
        options = []
        if self.chance(0.1):
            options.append(f"deprecated = {self.rng.choice(['true', 'false'])}")
        if self.chance(0.1):
            options.append(f'json_name = "{self.names.next("j")}"')
        is_repeated = label == "repeated "
        if is_repeated and not type_ and scalar in NUMBERS and self.chance(0.4):
            if self.syntax in EDITIONS:
                options.append("features.repeated_field_encoding = EXPANDED")
            else:
                options.append(f"packed = {self.rng.choice(['true', 'false'])}")
        if scalar.endswith("64") and not type_ and self.chance(0.2):
            options.append("jstype = JS_STRING")
        if self.syntax != "proto3" and not is_repeated and self.chance(0.4):
            options += self.default(type_, scalar)
        options += self.custom("Field", scope)
        self.rng.shuffle(options)
        return options

    def default(self, type_: Type | None, scalar: str) -> list[str]:
        if type_ is None:
            is_left_out = self.is_plain and scalar == "bytes"
            return [] if is_left_out else [f"default = {self.scalar(scalar)}"]
        return [f"default = {self.rng.choice(type_.values)}"] if type_.is_enum else []

    def map(self, scope: str, numbers: "Numbers") -> str:
        """Return a map field."""
        types = [each for each in self.usable() if not each.is_enum or each.is_open]
        value = self.rng.choice(SCALARS)
        if self.chance(0.4) and types:
            value = self.relative(self.rng.choice(types).full_name, scope)
        space = self.rng.choice(["", " "])
        options = self.in_brackets(self.custom("Field", scope))
        name = self.names.next("m_x")
        return f"map<{self.rng.choice(KEYS)},{space}{value}> {name} = {numbers.next()}{options};"

    def oneof(self, scope: str, numbers: "Numbers") -> str:
        """Return a oneof."""
        parts = []
        for _ in range(self.rng.randint(1, 4)):
            type_ = self.rng.choice(self.usable()) if self.chance(0.3) else None
            text = self.relative(type_.full_name, scope) if type_ else self.rng.choice(SCALARS)
            options = self.in_brackets(self.custom("Field", scope))
            parts.append(f"{text} {self.names.next('c')} = {numbers.next()}{options};")
        parts += [f"option {each};" for each in self.custom("Oneof", scope)]
        self.rng.shuffle(parts)
        return f"oneof {self.names.next('one')} {{\n" + "\n".join(parts) + "\n}"

    def group(self, scope: str, numbers: "Numbers") -> str:
        """Return a group."""
        name = self.names.next("G")
        inner = Numbers(self.rng)
        parts = [self.field(f"{scope}.{name}", inner) for _ in range(self.rng.randint(0, 3))]
        options = ""
        if not self.is_plain and self.chance(0.5):
            parts.append(self.enum(f"{scope}.{name}"))
            options = self.in_brackets(self.custom("Field", scope))
        number = numbers.next()
        label = self.rng.choice(["optional", "repeated"])
        return f"{label} group {name} = {number}{options} {{ " + "\n".join(parts) + " }"

    def reserved(self, numbers: "Numbers") -> str:
        """Return reserved numbers or names."""
        if self.chance(0.5):
            names = [self.names.next("gone") for _ in range(self.rng.randint(1, 3))]
            quote = "" if self.syntax in EDITIONS else '"'
            return "reserved " + ", ".join(f"{quote}{each}{quote}" for each in names) + ";"
        return "reserved " + ", ".join(numbers.range() for _ in range(self.rng.randint(1, 3))) + ";"

    def extensions(self, scope: str, numbers: "Numbers") -> str:
        """Return a range of extensions."""
        options = ""
        if not self.is_plain and self.chance(0.3):
            options = " [verification = UNVERIFIED]"
        return f"extensions {numbers.range()}{options};"

    def enum(self, scope: str) -> str:
        """Return an enum."""
        name = self.names.next("E")
        values = [self.names.next("V").upper() for _ in range(self.rng.randint(1, 4))]
        is_open = self.syntax != "proto2"
        start = 0 if is_open or self.chance(0.6) else self.rng.choice([1, -5])
        numbers = [start, *self.rng.sample(range(20, 1000), len(values) - 1)]
        if self.chance(0.2):
            numbers[-1] = numbers[-1] if len(numbers) == 1 else -numbers[-1]
        parts = []
        if len(values) > 1 and self.chance(0.2):
            parts.append("option allow_alias = true;")
            numbers[-1] = numbers[0]
        for value, number in zip(values, numbers, strict=True):
            options = self.custom("EnumValue", scope)
            if self.chance(0.1):
                options.append("deprecated = true")
            shown = f"0x{number:x}" if number > 0 and self.chance(0.1) else str(number)
            parts.append(f"{value} = {shown}{self.in_brackets(options)};")
        if self.chance(0.3):
            ends = ["-2000 to -1500", "1001, 1003 to 1010", "2000 to max", "7"]
            parts.append(f"reserved {self.rng.choice(ends if not self.is_plain else ends[1:])};")
        parts += [f"option {each};" for each in self.custom("Enum", scope)]
        full_name = f"{scope}.{name}".lstrip(".")
        is_usable = numbers[0] == 0
        made = Type(full_name=full_name, is_enum=True, values=tuple(values), is_open=is_open)
        visibility = self.visibility()
        if is_usable:
            self.add_type(made, visibility, is_inner=scope != self.package)
        return f"{visibility}enum {name} {{\n" + "\n".join(parts) + "\n}"

    def service(self) -> str:
        """Return a service."""
        name = self.names.next("S")
        scope = f"{self.package}.{name}".lstrip(".")
        messages = [each for each in self.types if not each.is_enum]
        messages.append(Type(full_name=self.option_type))
        parts = [f"option {each};" for each in self.custom("Service", self.package)]
        for _ in range(self.rng.randint(0, 3)):
            request, response = (
                self.rng.choice(["", "stream "])
                + self.relative(self.rng.choice(messages).full_name, scope)
                for _ in range(2)
            )
            options = [f"option {each};" for each in self.custom("Method", scope)]
            if self.chance(0.2):
                options.append("option idempotency_level = IDEMPOTENT;")
            end = " { " + " ".join(options) + " }" if options else ";"
            rpc = self.names.next("R")
            parts.append(f"rpc {rpc} ({request}) returns ({response}){end}")
        return f"service {name} {{\n" + "\n".join(parts) + "\n}"


class Numbers:
    """Gives numbers of fields, each once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._last = 0

    def next(self) -> int:
        self._last += self._rng.choice([1, 1, 1, 2, 50])
        if 19_000 <= self._last < 20_000:
            self._last = 20_000
        return self._last

    def range(self) -> str:
        start = self.next()
        if self._rng.random() < 0.5:
            return str(start)
        self._last += self._rng.randint(1, 20)
        return f"{start} to {self._last}"
