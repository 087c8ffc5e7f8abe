"""The files of one schema, and the lookup of names in them.

A name is looked up as protoc does: first its first part, from the innermost scope outward, and then
the rest inside the definition found.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    SCOPES,
    TYPES,
    EnumDefinition,
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
    NameKind,
    joined,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A full name and the kind of its definition. ``path`` is the file that defines it."""

    full_name: str
    kind: NameKind
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A name that was not found. Both fields may be empty.

    ``tried`` is the full name that was looked up, if a scope has the first part of the name but not
    the rest of it. ``path`` is a file that defines the name, but is not imported.
    """

    tried: str = ""
    path: str = ""


class Pool:
    """The linked files of a schema, each after its dependencies.

    If names collide, the file that was added first wins. ``base`` has the definitions of options,
    which are visible without an import.
    """

    def __init__(self, base: "Pool | None" = None) -> None:
        self._base = base
        self.files: dict[str, FileDefinition] = {}
        self.names: dict[str, Found] = {}
        self.package_files: dict[str, set[str]] = {}
        self.messages: dict[str, MessageDefinition] = {}
        self.enums: dict[str, EnumDefinition] = {}
        self.extensions: dict[str, FieldDefinition] = {}
        self.numbered_extensions: dict[tuple[str, int], FieldDefinition] = {}

    def __repr__(self) -> str:
        return f"<Pool of {list(self.files)}>"

    def copy(self) -> "Pool":
        """Return a pool with the same files.

        Later additions to one pool do not affect the other.
        """
        other = Pool(self._base)
        other.files = dict(self.files)
        other.names = dict(self.names)
        other.package_files = {name: set(paths) for name, paths in self.package_files.items()}
        other.messages = dict(self.messages)
        other.enums = dict(self.enums)
        other.extensions = dict(self.extensions)
        other.numbered_extensions = dict(self.numbered_extensions)
        return other

    def add_names(self, path: str, package: str, names: dict[str, NameKind]) -> None:
        """Add the names of a file, before its types are resolved."""
        for full_name, kind in names.items():
            self.names.setdefault(full_name, Found(full_name=full_name, kind=kind, path=path))
        for name in packages(package):
            self.package_files.setdefault(name, set()).add(path)

    def add(self, file: FileDefinition) -> None:
        """Add a linked file."""
        self.files[file.path] = file
        for message in file.all_messages():
            self.messages.setdefault(message.full_name, message)
        for enum in file.all_enums():
            self.enums.setdefault(enum.full_name, enum)
        for extension in file.all_extensions():
            self.extensions.setdefault(extension.full_name, extension)
            key = (extension.extendee, extension.number)
            self.numbered_extensions.setdefault(key, extension)

    def adopt(self, file: FileDefinition) -> None:
        """Add a file that was linked elsewhere, with its imports."""
        if file.path in self.files:
            return
        for imported in file.imports.values():
            self.adopt(imported)
        self.add_names(file.path, file.node.package, dict(file.names))
        self.add(file)

    def message(self, full_name: str) -> MessageDefinition | None:
        """Return the message with a full name, or None."""
        found = self.messages.get(full_name)
        return self._base.messages.get(full_name) if found is None and self._base else found

    def enum(self, full_name: str) -> EnumDefinition | None:
        """Return the enum with a full name, or None."""
        found = self.enums.get(full_name)
        return self._base.enums.get(full_name) if found is None and self._base else found

    def find(self, full_name: str, visible: frozenset[str]) -> Found | None:
        """Return the definition with a full name if a visible file has it, or None."""
        found = self.names.get(full_name)
        if found is not None and found.path in visible:
            return found
        if not visible.isdisjoint(self.package_files.get(full_name, ())):
            return Found(full_name=full_name, kind=NameKind.PACKAGE, path="")
        return None

    def resolve(
        self,
        name: str,
        scope: str,
        visible: frozenset[str],
        budget: Budget,
        *,
        is_type: bool = False,
    ) -> Found | Missing:
        """Look up a name as it is written. ``is_type`` skips definitions that are not types."""
        if name.startswith("."):
            return self.find(name[1:], visible) or self._missing(name[1:])
        first, _, rest = name.partition(".")
        around = scope
        while True:
            budget.spend()
            found = self.find(joined(scope, first), visible)
            if found is not None and rest and found.kind in SCOPES:
                whole = joined(scope, name)
                return self.find(whole, visible) or self._missing(whole, tried=whole)
            if found is not None and not rest and (not is_type or found.kind in TYPES):
                return found
            if not scope:
                return self._hidden(name, around)
            scope = scope.rpartition(".")[0]

    def _hidden(self, name: str, scope: str) -> Missing:
        """Describe a missing name, with a file that defines it but is not imported, if any."""
        while scope and joined(scope, name) not in self.names:
            scope = scope.rpartition(".")[0]
        return self._missing(joined(scope, name))

    def _missing(self, full_name: str, tried: str = "") -> Missing:
        hidden = self.names.get(full_name)
        return Missing(tried=tried, path=hidden.path if hidden else "")


def packages(package: str) -> list[str]:
    """Return a package and the packages that contain it, the outermost first."""
    parts = package.split(".") if package else []
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def visible_files(file: FileDefinition) -> frozenset[str]:
    """Return the paths of the files whose names a file may use."""
    return reachable(file.path, file.imports)


def reachable(path: str, imports: Mapping[str, FileDefinition]) -> frozenset[str]:
    """Return a path, those of its imports, and those of their public imports at any depth."""
    seen = {path}
    waiting = list(imports.values())
    while waiting:
        file = waiting.pop()
        if file.path not in seen:
            seen.add(file.path)
            waiting += [
                file.imports[each.path]
                for each in file.node.imports
                if each.kind == "public" and each.path in file.imports
            ]
    return frozenset(seen)
