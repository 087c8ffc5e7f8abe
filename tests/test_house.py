"""The house keeps its sizes and its words.

Files and functions stay short, files say what they are, names are the field's.
"""

import ast
import re
import shutil
import subprocess
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("log_service", "orchestration", "assets", "sensors")
NONE: frozenset[str] = frozenset()
GENERATED = ("log_service/protocol/messages/", "log_service/protocol/stored/")
LONG_FILE_LINES = 400
MAX_FILE_LINES = 700
MAX_TEST_FILE_LINES = 840
MAX_FUNCTION_LINES = 70
UNUSED_WORDS = re.compile(r"(^|_)(utils?|helpers?|manager|misc)($|_)")
KAFKAS_OWN_MANAGERS = {"log_manager", "replica_manager"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bNotImplementedError\b")
WORKPLACE = re.compile(r"/work/|/tmp/peer|\bissue \d+\b", re.IGNORECASE)
UNNAMED_ACTOR = re.compile(r"\b(?:nobody|whoever|who would)\b", re.IGNORECASE)
ANSWER_OF_A_NODE = re.compile(
    r"(?:\b(?:an?|the|its|their|each|every|no|first|last|different)|'s) answers?\b", re.IGNORECASE
)


def every_source(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def sources(*folders: str) -> list[Path]:
    return [path for path in every_source(*folders) if not named(path).startswith(GENERATED)]


@cache
def written(path: Path) -> str:
    return path.read_text()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a file's syntax tree that the tests need.

    To keep the trees themselves costs seconds of garbage collection.
    """

    has_docstring: bool
    first_sentences: tuple[str, ...]
    """The first sentence of each docstring."""
    function_lengths: tuple[tuple[str, int], ...]
    others_state: tuple[str, ...]
    private_names: frozenset[str]
    """Private names that a file of the product declares."""
    private_uses: tuple[str, ...]
    """Private names that a test takes from an object of another file."""
    imported: frozenset[str]
    """Names of modules, and ``module:name`` of what is taken from one."""


def nodes_in(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all nodes within, as ``ast.walk`` does, but in a third of its time.

    Left out are operators, and contexts such as ``ast.Load``: they have no name and no place.
    """
    found = [tree]
    for node in found:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                found.append(value)
    return found


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(written(path))
    is_product = path.relative_to(ROOT).parts[0] in PRODUCT
    return Facts(
        has_docstring=bool(ast.get_docstring(tree)),
        first_sentences=tuple(first_sentences(tree)),
        function_lengths=tuple(
            (node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions(tree.body)
        ),
        others_state=tuple(others_state(tree)) if is_product else (),
        private_names=frozenset(filter(is_private, declared_names(tree))) if is_product else NONE,
        private_uses=() if is_product else tuple(private_uses(tree)),
        imported=frozenset(imported_names(tree)) if is_product else NONE,
    )


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def functions(statements: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions in statements and in the statements within."""
    for node in definitions(statements):
        if not isinstance(node, ast.ClassDef):
            yield node


def definitions(statements: Iterable[ast.AST]) -> Iterator[Definition]:
    """Yield the classes and functions in statements and in the statements within."""
    for node in statements:
        if isinstance(node, Definition):
            yield node
        for within in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, within, None)
            if isinstance(inner, list):
                yield from definitions(inner)


def longer_than(lines: int, paths: Iterable[Path]) -> list[str]:
    return [named(path) for path in paths if written(path).count("\n") > lines]


def test_files_are_short() -> None:
    assert longer_than(MAX_FILE_LINES, sources(*PRODUCT)) == [], "each of these is two files"
    assert longer_than(MAX_TEST_FILE_LINES, sources("tests", "benchmarks")) == [], (
        "each of these is two files"
    )


def test_a_file_opens_by_saying_what_it_is() -> None:
    silent = [named(path) for path in sources(*PRODUCT) if not facts(path).has_docstring]
    assert silent == [], "a file opens with what it decides and what it does not know"


@pytest.mark.filterwarnings("default::UserWarning")
def test_long_files_are_told() -> None:
    """A long file is a warning and not an error: it may hold one thought, whole."""
    counts = {named(path): written(path).count("\n") for path in sources(*PRODUCT)}
    told = [
        f"{count} {name}"
        for name, count in sorted(counts.items(), key=itemgetter(1), reverse=True)
        if count > LONG_FILE_LINES
    ]
    if told:
        warnings.warn(
            f"more than {LONG_FILE_LINES} lines, of at most {MAX_FILE_LINES}: {', '.join(told)}",
            UserWarning,
            stacklevel=1,
        )


def test_functions_are_short() -> None:
    too_long = [
        f"{named(path)}: {name}: {length}"
        for path in sources(*PRODUCT, "tests", "benchmarks", "tools", "examples")
        if written(path).count("\n") > MAX_FUNCTION_LINES
        for name, length in facts(path).function_lengths
        if length > MAX_FUNCTION_LINES
    ]
    assert too_long == []


def test_file_name_is_a_word_of_the_field() -> None:
    stems = {named(path): path.stem for path in sources(*PRODUCT)}
    assert [
        name
        for name, stem in stems.items()
        if stem not in KAFKAS_OWN_MANAGERS and UNUSED_WORDS.search(stem)
    ] == []


LISTED_ROOMS = re.compile(r"^- ((?:``\w+``(?:, | and )?)+)", re.MULTILINE)


def rooms_of(package: Path) -> set[str]:
    """Return the modules and packages in a package."""
    return {path.stem for path in package.glob("*.py")} - {"__init__"} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }


def test_a_map_of_rooms_is_whole() -> None:
    """A package whose docstring lists its rooms names every module and package in it.

    It lists nothing that is not there.
    """
    wrong = []
    for path in sources(*PRODUCT):
        text = (
            ast.get_docstring(ast.parse(written(path))) or "" if path.name == "__init__.py" else ""
        )
        listed = {
            room for rooms in LISTED_ROOMS.findall(text) for room in re.findall(r"``(\w+)``", rooms)
        }
        rooms = rooms_of(path.parent) if listed else set()
        wrong += [
            f"{named(path)} does not name {room}"
            for room in sorted(rooms - set(re.findall(r"``(\w+)``", text)))
        ]
        wrong += [
            f"{named(path)} lists {room}, which is not there" for room in sorted(listed - rooms)
        ]
    assert wrong == []


TESTS_IN_PLAIN_WORDS = tuple(
    f"tests/{folder}"
    for folder in (
        "chaos",
        "documentation",
        "fuzz",
        "helpers",
        "integration",
        "platform",
        "sim",
        "unit",
    )
)
BESIDE_PRODUCT = ("benchmarks", "examples", "tools", *TESTS_IN_PLAIN_WORDS)
"""Folders whose docstrings begin as those of the product do: as CONTRIBUTING.md asks."""
MAX_FIRST_SENTENCE = 100
GUESSED_OPENING = re.compile(r"(What|That|Such|Who|Where|Whose|Which|When|Those)\b")


def first_sentences(tree: ast.Module) -> Iterator[str]:
    """Yield the first sentence of each docstring in a file."""
    for node in (tree, *definitions(tree.body)):
        if text := ast.get_docstring(node):
            yield " ".join(re.split(r"(?<=[.!?])\s|\n\n", text, maxsplit=1)[0].split())


def test_first_sentences_are_short_and_name_their_subject() -> None:
    wrong = [
        f"{named(path)}: {sentence}"
        for path in sources(*PRODUCT, *BESIDE_PRODUCT)
        for sentence in facts(path).first_sentences
        if len(sentence) > MAX_FIRST_SENTENCE or GUESSED_OPENING.match(sentence)
    ]
    assert wrong == []


def lines_with(unwanted: re.Pattern[str], *folders: str) -> list[str]:
    return [
        f"{named(path)}: {line}"
        for path in sources(*folders)
        for line in written(path).splitlines()
        if unwanted.search(line)
    ]


def test_prose_names_who_acts() -> None:
    """The broker, the client, no task: a reader should not have to find out who is meant."""
    assert lines_with(UNNAMED_ACTOR, *PRODUCT, "benchmarks", "tools", "examples") == []


def test_a_node_gives_a_response() -> None:
    """A query of a user's returns an answer, and a request of the protocol gets a response."""
    assert lines_with(ANSWER_OF_A_NODE, "log_service") == []


@pytest.mark.parametrize(
    ("unwanted", "line"),
    [
        (UNNAMED_ACTOR, "# Whoever made the socket closes it"),
        (UNNAMED_ACTOR, '"""Tell those who would wait."""'),
        (UNNAMED_ACTOR, "NOBODY = -1"),
        (ANSWER_OF_A_NODE, "# a voter's answer"),
        (ANSWER_OF_A_NODE, "def f() -> None: # the answers of all"),
    ],
)
def test_the_search_for_unwanted_words_finds_what_it_should(
    unwanted: re.Pattern[str], line: str
) -> None:
    assert unwanted.search(line)
    assert not unwanted.search(
        "# it answers the request once no task waits for it, as the leader does, who is known"
    )


def test_a_module_has_one_logger_and_its_name_is_logger() -> None:
    asks = re.compile(r"getLogger\(__name__\)")
    found = [
        line
        for line in lines_with(asks, *PRODUCT)
        if not line.endswith(": logger = logging.getLogger(__name__)")
    ]
    assert found == []


def test_tests_import_from_modules_that_are_no_tests() -> None:
    """Code that two test files need has a module of its own, with a name that says what it is."""
    taken = re.compile(
        r"^from tests(\.\w+)*\.test_\w+ import|^import tests(\.\w+)*\.test_\w+|^from tests(\.\w+)* import test_\w+",
        re.MULTILINE,
    )
    borrowing = [
        named(path)
        for path in sources("tests", "benchmarks", "tools")
        if taken.search(written(path))
    ]
    assert borrowing == []


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{named(path)}: {line}"
        for path in sources(*PRODUCT, "tests", "benchmarks", "tools", "examples")
        if path != Path(__file__)
        for line in written(path).splitlines()
        if UNFINISHED.search(line) or WORKPLACE.search(line)
    ]
    assert found == []


# A formatter moves a comment that does not fit behind the closing bracket, away from its subject.
COMMENT_BEHIND_A_BRACKET = re.compile(r"^\s*[])}]+[,:]?\s+# (?!fmt:|type:|noqa|pragma)")


def test_a_comment_stands_above_what_does_not_fit_into_a_line() -> None:
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in sources(*PRODUCT, "tests", "benchmarks", "tools", "examples")
        for number, line in enumerate(written(path).splitlines(), start=1)
        if COMMENT_BEHIND_A_BRACKET.search(line)
    ]
    assert found == []


# One owner for each state

OWNED_STATE = frozenset(
    {
        "aborted_transactions",
        "append_refusal",
        "cleaned_offset",
        "high_watermark",
        "is_closed",
        "is_dirty",
        "is_directory_dirty",
        "is_offline",
        "is_removed",
        "isr",
        "last_stable_offset",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "maximal_isr",
        "open_file",
        "partition_epoch",
        "producer_state",
        "recovery_point",
        "synced_bytes",
    }
)
"""What recovery, replication and reads rely on: a write from outside its owner breaks an invariant
that the owner states.
"""

OTHERS_STATE: dict[tuple[str, str], str] = {
    (
        "log_service/raft/replica.py",
        "self.effects.high_watermark",
    ): "the replica puts the effects of its step together",
    (
        "log_service/broker/handlers/produce/produce.py",
        "result.log_start_offset",
    ): "a part of the response, which this file has just made",
    (
        "log_service/client/producer/accumulator.py",
        "batch.is_closed",
    ): "batches are the accumulator's to fill, one record at a time",
    (
        "log_service/client/producer/accumulator.py",
        "queue.waiting[-1].is_closed",
    ): "batches are the accumulator's to fill",
    (
        "orchestration/installation/daemon/pace.py",
        "daemon._threadpool_executor",
    ): "Dagster has no other place for what makes its ticks",
}
"""(file, target): why it may be assigned there all the same."""


def assigned_attributes(node: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that a statement assigns, adds to or deletes."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            waiting = list(targets)
        case (
            ast.AugAssign(target=target)
            | ast.AnnAssign(target=target)
            | ast.For(target=target)
            | ast.NamedExpr(target=target)
        ):
            waiting = [target]
        case _:
            return
    while waiting:
        match waiting.pop():
            case ast.Tuple(elts=several) | ast.List(elts=several):
                waiting += several
            case ast.Starred(value=one):
                waiting.append(one)
            case ast.Attribute() as attribute:
                yield attribute


def messages_imported(tree: ast.Module) -> set[str]:
    """Return the names of protocol messages in a file.

    They are plain structures, which a handler fills field by field.
    """
    imports = (node for node in nodes_in(tree) if isinstance(node, ast.ImportFrom))
    generated = ("log_service.protocol.messages", "log_service.protocol.stored")
    return {
        alias.asname or alias.name
        for node in imports
        if (node.module or "").startswith(generated)
        for alias in node.names
    }


def own_names(function: ast.FunctionDef | ast.AsyncFunctionDef, messages: set[str]) -> set[str]:
    """Return the names in a function whose attributes it may set.

    They are itself, new objects, and messages that it fills.
    """
    own = {"self", "cls"}
    for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]:
        if (
            argument.annotation is not None
            and ast.unparse(argument.annotation).split(".")[0] in messages
        ):
            own.add(argument.arg)
    for node in nodes_in(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func).split(".")[-1].lstrip("_")
            if called[:1].isupper() or called in {"cls", "copy"}:
                own.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return own


def declared_attributes(owner: ast.ClassDef) -> set[str]:
    """Return what a class declares: fields, slots, and what its methods set on ``self``."""
    fields = {
        node.target.id
        for node in owner.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assigned = {
        attribute.attr
        for node in nodes_in(owner)
        for attribute in assigned_attributes(node)
        if isinstance(attribute.value, ast.Name) and attribute.value.id == "self"
    }
    return fields | assigned


def others_state(tree: ast.Module) -> Iterator[str]:
    """Yield the targets of assignments to private or owned state of an object of another file."""
    messages = messages_imported(tree)
    classes = {
        node: declared_attributes(node) for node in nodes_in(tree) if isinstance(node, ast.ClassDef)
    }

    def look_into(node: ast.AST, own: set[str], within: ast.ClassDef | None) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            for target in assigned_attributes(child):
                name = target.attr
                is_own = isinstance(target.value, ast.Name) and target.value.id in own
                is_of_this_file = any(
                    name in declared for owner, declared in classes.items() if owner is not within
                )
                if (is_private(name) or name in OWNED_STATE) and not is_own and not is_of_this_file:
                    yield ast.unparse(target)
            inner_own = (
                own | own_names(child, messages)
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                else own
            )
            yield from look_into(
                child, inner_own, child if isinstance(child, ast.ClassDef) else within
            )

    yield from look_into(tree, set(), None)


@cache
def all_others_state() -> frozenset[tuple[str, str]]:
    """Return (file, target) of every such assignment of the product."""
    return frozenset(
        (named(path), target) for path in sources(*PRODUCT) for target in facts(path).others_state
    )


def test_no_file_sets_the_private_or_recovery_state_of_anothers_objects() -> None:
    """State has one owner that changes it: the file of its class. Others call a method of it, or
    hand in a value or a callback.

    A target is found by its name, since the types are not known here: a name that is private, or
    one of ``OWNED_STATE``. A file may set it on ``self``, on what the same function has just
    constructed, on a protocol message, and on an object whose class it declares itself.
    """
    assert sorted(all_others_state() - OTHERS_STATE.keys()) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(log): log.recovery_point = 1", ["log.recovery_point"]),
        (
            "def f(log): log.size, (log.is_closed, *log._rest) = 1, (2, 3)",
            ["log._rest", "log.is_closed"],
        ),
        ("def f(log): log.home.is_offline |= True", ["log.home.is_offline"]),
        ("def f(log):\n    def g(): del log._cache", ["log._cache"]),
        ("class A:\n    def f(self, other): other._count += 1; self._count = 0", ["other._count"]),
        ("class B:\n    _count: int\nclass A:\n    def f(self, b): b._count += 1", []),
        ("def f():\n    log = Log()\n    log._count = 1", []),
        (
            "from log_service.protocol.messages.fetch import P\ndef f(part: P): part.high_watermark = 1",
            [],
        ),
        ("def f(log): log.name = log.recovery_point", []),
    ],
)
def test_the_search_for_others_state_finds_what_it_should(source: str, expected: list[str]) -> None:
    assert sorted(others_state(ast.parse(source))) == expected


def test_every_exception_is_still_needed() -> None:
    assert sorted(OTHERS_STATE.keys() - all_others_state()) == []


# What tests see

MAX_PRIVATE_USES = 56
"""How often tests take a private name of the product from an object. Only a lower bound may follow."""
NAMED_TUPLES_OWN = frozenset({"_asdict", "_fields", "_make", "_replace"})


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLES_OWN


def declared_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes, functions and attributes that a file declares."""
    for node in nodes_in(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from declared_attributes(node)


def private_uses(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a test takes from an object whose class is not in its file.

    A pair such as ``monkeypatch.setattr(Log, "_write", ...)`` takes one, too.
    """
    own = set(declared_names(tree))
    for node in nodes_in(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                pass
            case ast.Tuple(elts=[ast.Name() | ast.Attribute(), ast.Constant(value=str(name)), *_]):
                pass
            case ast.Call(args=[_, ast.Constant(value=str(name)), *_]) if ast.unparse(
                node.func
            ).rpartition(".")[2] in {"getattr", "object", "setattr"}:
                pass
            case _:
                continue
        if is_private(name) and name not in own:
            yield name


def test_tests_see_what_users_see() -> None:
    """A test that needs to see inside gets a read-only property, and a planted bug a named seam."""
    private = {name for path in sources(*PRODUCT) for name in facts(path).private_names}
    found = [
        f"{named(path)}: {name}"
        for path in sources("tests")
        for name in facts(path).private_uses
        if name in private
    ]
    assert len(found) <= MAX_PRIVATE_USES, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("log._size", ["_size"]),
        ("log._home._path", ["_home", "_path"]),
        ("log.size, header._replace(), super().__init__()", []),
        ("class A:\n    def f(self): self._size", []),
        ("class A:\n    _size: int\ndef f(a): a._size", []),
        ('setattr(Log, "_write", write)', ["_write"]),
        ('Bug(replacements=((log, "_write", write),))', ["_write"]),
        ('rows(TABLE, "_offset")', []),
    ],
)
def test_the_search_for_private_uses_finds_what_it_should(source: str, expected: list[str]) -> None:
    assert sorted(private_uses(ast.parse(source))) == expected


# No import cycle


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names in a file's imports, wherever they stand.

    Those in a function and for type checkers alone count, too.
    """
    for node in nodes_in(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "imports are absolute"
            yield from (f"{node.module}:{alias.name}" for alias in node.names)


def imported_modules(names: Collection[str], modules: Collection[str]) -> set[str]:
    """Return which of ``modules`` are named.

    A package counts only where something that is not a module of its own is taken from it.
    """
    whole = {name for name in names if ":" not in name}
    within = {name.replace(":", ".") for name in names} - whole
    packages = {
        name.partition(":")[0]
        for name in names
        if ":" in name and name.replace(":", ".") not in modules
    }
    return (whole | within | packages) & set(modules)


def tangled(imported: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the modules that wait for each other, with what each needs of the others.

    ``imported`` is what each module names.
    """
    waiting = {
        module: imported_modules(names, imported.keys()) - {module}
        for module, names in imported.items()
    }
    while free := [module for module, needed in waiting.items() if not needed & waiting.keys()]:
        for module in free:
            del waiting[module]
    return {module: sorted(needed & waiting.keys()) for module, needed in waiting.items()}


def test_no_import_cycle() -> None:
    """Two files that need each other are one file, or one of them lacks a third that both stand on.

    ``TYPE_CHECKING`` hides that only.
    """
    assert tangled({module_of(path): facts(path).imported for path in every_source(*PRODUCT)}) == {}


# Kinds of tables

KINDS_FOLDER = "orchestration/transforms"
KNOWS_A_KIND = {
    f"{KINDS_FOLDER}/__init__.py": "imports each kind, which registers itself",
    "orchestration/components/sql_transform.py": "declares a table of the lake in YAML",
    "orchestration/demo/freshness.py": "looks into a table of the lake that the demo declares",
}
"""File: why it may import a kind of table all the same."""


def test_rooms_ask_the_registry_of_kinds_and_name_none() -> None:
    """A new kind of table is a folder that registers itself, so no room may know a kind."""
    kinds = [path.parent for path in (ROOT / KINDS_FOLDER).glob("*/kind.py")]
    assert len(kinds) > 1
    importing = {
        named(path)
        for path in sources("orchestration")
        for kind in kinds
        if kind not in path.parents
        for name in facts(path).imported
        if re.match(rf"{re.escape(module_of(kind))}[.:]", name + ".")
    }
    assert sorted(importing) == sorted(KNOWS_A_KIND)


@pytest.mark.parametrize(
    ("imports", "is_cycle"),
    [
        ("from room.b import B", True),
        ("from room import b", True),
        ("import room.b", True),
        ("if TYPE_CHECKING:\n    from room.b import B", True),
        ("def f():\n    from room.b import B", True),
        ("from room.c import C", False),
        ("from room.a import A", False),
    ],
)
def test_the_search_for_cycles_finds_what_it_should(imports: str, *, is_cycle: bool) -> None:
    texts = {
        "room": "",
        "room.a": imports,
        "room.b": "from room.c import a\nfrom room.a import A",
        "room.c": "import json",
    }
    found = tangled(
        {module: frozenset(imported_names(ast.parse(text))) for module, text in texts.items()}
    )
    assert set(found) == ({"room.a", "room.b"} if is_cycle else set())


# Subjects of commits

LAST_FREE_COMMIT = "c612c6308a153a1f593a25ece47c6d2730fee341"
"""The last commit whose subject need not follow the rule."""
MAX_SUBJECT = 72
SUBJECT = re.compile(r"[\w./-]+(?:,? [\w./-]+){0,3}: \S.*[^\s.]")
"""``area: what changed``, without a full stop. An area is a few words or names of rooms."""


def against_the_rule(subjects: Iterable[str]) -> list[str]:
    return [
        subject
        for subject in subjects
        if len(subject) > MAX_SUBJECT or not SUBJECT.fullmatch(subject)
    ]


def new_subjects() -> list[str]:
    """Return the subjects of the commits after ``LAST_FREE_COMMIT``, without merges.

    Skips the test in a source archive and in a clone whose history does not reach that far.
    """
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("there is no history: this is a source archive, or git is not installed")
    command = [
        git,
        "-C",
        str(ROOT),
        "log",
        "--no-merges",
        "--format=%s",
        f"{LAST_FREE_COMMIT}..HEAD",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(
            f"the history does not reach back to {LAST_FREE_COMMIT[:8]}: {done.stderr.strip()}"
        )
    return done.stdout.splitlines()


def test_the_subject_of_a_commit_names_its_area_and_is_short() -> None:
    """A list of commits shows 72 characters, and its reader looks for an area first."""
    assert against_the_rule(new_subjects()) == [], "git commit --amend, or git rebase -i"


@pytest.mark.parametrize(
    ("subject", "is_good"),
    [
        ("storage: write recovery point 0 before deleting segments", True),
        ("controller, mirror: say who acts", True),
        ("topics in SQL: read fields by the rule", True),
        ("tests/test_house.py: hold subjects to the rule", True),
        ("Say in one place how epochs go on: two sides each had the rule", False),
        ("storage: write recovery point 0 before deleting segments.", False),
        ("storage:write recovery point 0", False),
        ("storage: ", False),
        ("write recovery point 0", False),
        (f"storage: {'x' * 63}", True),
        (f"storage: {'x' * 64}", False),
    ],
)
def test_the_rule_of_subjects_takes_what_it_should(subject: str, *, is_good: bool) -> None:
    """The area comes first, and the rest is a short sentence without a full stop."""
    assert (against_the_rule([subject]) == []) == is_good
