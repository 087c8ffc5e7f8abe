"""All ACLs of a cluster, indexed so that those of one resource are found without a scan.

The index decides which ACLs apply to a resource: literal patterns with its name, prefixes of its
name, and the literal ``*``. ``decision`` evaluates them.

Prefixes are found by length. The index keeps the lengths of all prefixes, and looks up the
beginning of the name for each length. The number of lookups is at most the length of the name,
however many ACLs there are.

Invariants: an index never changes. A changed index shares everything with the one before except the
chunks that the changes touch. The ACLs under one name are ordered by ``sort_key``.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from log_service.common.sorted_map import changed_map
from log_service.security.acls.values import WILDCARD, Acl, PatternType, Place, sort_key

Acls = tuple[Acl, ...]
Known = tuple[()] | tuple[str] | tuple[str, str] | tuple[str, str, int] | tuple[str, str, int, int]
"""The known leading fields of an ACL in ``sort_key`` order: principal, host, operation, permission.
"""
Section = Mapping[tuple[int, str], Acls]
"""ACLs by resource type and name."""
Blocks = tuple[Acls, ...]
NO_ACLS: Acls = ()
NO_BLOCKS: Blocks = ()
BLOCK_SIZE = 32
"""The most ACLs in a block of one principal.

Adding one copies the last block and a pointer to each other block.
"""
Lengths = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclIndex:
    """The ACLs by resource and by principal."""

    literal: Section = field(default_factory=dict)
    prefixed: Section = field(default_factory=dict)
    by_principal: Mapping[tuple[int, str], Blocks] = field(default_factory=dict)
    """Blocks of ACLs by resource type and principal, unordered.

    Blocks keep an addition cheap for a principal with many ACLs.
    """
    prefix_lengths: Lengths = field(default_factory=dict)
    """The number of prefix names by resource type and length, longest first."""
    count: int = 0

    def __repr__(self) -> str:
        return f"<AclIndex of {self.count} ACLs>"

    def about(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Yield the ACLs that apply to a resource, longest name first, the literal ``*`` last."""
        yield from self.literal.get((resource_type, name), NO_ACLS)
        size = len(name)
        for length in self.prefix_lengths.get(resource_type, ()):
            if length <= size:
                yield from self.prefixed.get((resource_type, name[:length]), NO_ACLS)
        if name != WILDCARD:
            yield from self.literal.get((resource_type, WILDCARD), NO_ACLS)

    def named(self, resource_type: int, pattern_type: int, name: str) -> Acls:
        """Return the ACLs of exactly one pattern."""
        return (self.prefixed if pattern_type == PatternType.PREFIXED else self.literal).get(
            (resource_type, name), NO_ACLS
        )

    def holds(self, wanted: Place) -> bool:
        """Whether an ACL with all these fields exists.

        It is a binary search, because one name may have thousands of ACLs.
        """
        resource_type, resource_name, *order = wanted
        acls, key = self.named(resource_type, wanted[2], resource_name), tuple(order)
        position = bisect_left(acls, key, key=sort_key)
        return position < len(acls) and sort_key(acls[position]) == key

    def beginning(self, resource_type: int, pattern_type: int, name: str, known: Known) -> Acls:
        """Return the ACLs of one pattern that have the ``known`` fields, by binary search."""
        acls, wanted = self.named(resource_type, pattern_type, name), (pattern_type, *known)
        size = len(wanted)
        start = bisect_left(acls, wanted, key=lambda acl: sort_key(acl)[:size])
        return acls[
            start : bisect_right(acls, wanted, lo=start, key=lambda acl: sort_key(acl)[:size])
        ]

    def all(self) -> Iterator[Acl]:
        """Yield every ACL."""
        for section in (self.literal, self.prefixed):
            for acls in section.values():
                yield from acls

    def of_principal(self, resource_type: int, principal: str) -> Iterator[Acl]:
        """Yield the ACLs for a resource type that name a principal, unordered."""
        return chain.from_iterable(self.by_principal.get((resource_type, principal), NO_BLOCKS))

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> "AclIndex":
        """Return the index with ACLs added and removed.

        A removed ACL must be the same object that was added.
        """
        of_literal, of_prefix, of_principal = (
            _Changes(self.literal),
            _Changes(self.prefixed),
            _PrincipalChanges(self.by_principal),
        )
        count = self.count
        for acl in removed:
            (of_prefix if acl.pattern_type == PatternType.PREFIXED else of_literal).remove(
                acl.resource_name, acl
            )
            of_principal.remove(acl.principal, acl)
            count -= 1
        of_literal.take_out()
        of_prefix.take_out()
        of_principal.take_out()
        for acl in added:
            (of_prefix if acl.pattern_type == PatternType.PREFIXED else of_literal).add(
                acl.resource_name, acl
            )
            of_principal.add(acl.principal, acl)
            count += 1
        return replace(
            self,
            literal=of_literal.build(),
            prefixed=of_prefix.build(),
            by_principal=of_principal.build(),
            prefix_lengths=_changed_lengths(self.prefix_lengths, of_prefix.name_changes()),
            count=count,
        )


NO_INDEX = AclIndex()


Gone = dict[tuple[int, str], set[int]]
"""The ids of the removed objects, by resource type and name or principal.

They are removed together and compared by identity. Removing a thousand ACLs of one principal one by
one would take a million comparisons.
"""


def _without(acls: Iterable[Acl], gone: set[int]) -> list[Acl]:
    """Return the ACLs without those whose ``id()`` is in ``gone``, which must all be among them."""
    found = list(acls)
    kept = [acl for acl in found if id(acl) not in gone]
    assert len(kept) == len(found) - len(gone), "an ACL is removed that is not in the index"
    return kept


class _Changes:
    """The changes to a ``Section``, the ACLs by resource. Each changed name is copied once."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._changed: dict[tuple[int, str], list[Acl]] = {}
        self._gone: Gone = {}

    def add(self, name: str, acl: Acl) -> None:
        """Add an ACL under a name."""
        key = (acl.resource_type, name)
        acls = self._changed.get(key)
        if acls is None:
            acls = self._changed[key] = list(self._section.get(key, NO_ACLS))
        insort(acls, acl, key=sort_key)

    def remove(self, name: str, acl: Acl) -> None:
        """Mark an ACL under a name for removal.

        ``take_out`` removes it. Call that before ``add``.
        """
        self._gone.setdefault((acl.resource_type, name), set()).add(id(acl))

    def take_out(self) -> None:
        """Remove the marked ACLs."""
        for key, gone in self._gone.items():
            self._changed[key] = _without(self._section.get(key, NO_ACLS), gone)

    def build(self) -> Section:
        """Return the ACLs with the changes applied."""
        return changed_map(
            self._section, {key: tuple(acls) or None for key, acls in self._changed.items()}
        )

    def name_changes(self) -> Iterator[tuple[int, str, int]]:
        """Yield (type, name, 1 or -1) for each name that appeared or disappeared."""
        for (resource_type, name), acls in self._changed.items():
            change = bool(acls) - ((resource_type, name) in self._section)
            if change:
                yield resource_type, name, change


class _PrincipalChanges:
    """The changes to the ACLs of principals.

    New ACLs go into the last block, so the other blocks are not copied.
    """

    def __init__(self, section: Mapping[tuple[int, str], Blocks]) -> None:
        self._section = section
        self._changed: dict[tuple[int, str], list[Acls]] = {}
        self._gone: Gone = {}

    def add(self, principal: str, acl: Acl) -> None:
        """Add an ACL under its principal."""
        key = (acl.resource_type, principal)
        blocks = self._changed.get(key)
        if blocks is None:
            blocks = self._changed[key] = list(self._section.get(key, NO_BLOCKS))
        if blocks and len(blocks[-1]) < BLOCK_SIZE:
            blocks[-1] = (*blocks[-1], acl)
        else:
            blocks.append((acl,))

    def remove(self, principal: str, acl: Acl) -> None:
        """Mark an ACL for removal, like ``_Changes.remove``."""
        self._gone.setdefault((acl.resource_type, principal), set()).add(id(acl))

    def take_out(self) -> None:
        """Remove the marked ACLs."""
        for key, gone in self._gone.items():
            kept = _without(chain.from_iterable(self._section.get(key, NO_BLOCKS)), gone)
            self._changed[key] = [
                tuple(kept[start : start + BLOCK_SIZE]) for start in range(0, len(kept), BLOCK_SIZE)
            ]

    def build(self) -> Mapping[tuple[int, str], Blocks]:
        """Return the ACLs with the changes applied."""
        return changed_map(
            self._section, {key: tuple(blocks) or None for key, blocks in self._changed.items()}
        )


def _changed_lengths(lengths: Lengths, changes: Iterable[tuple[int, str, int]]) -> Lengths:
    changed: dict[int, Counter[int]] = {}
    for resource_type, name, change in changes:
        if resource_type not in changed:
            changed[resource_type] = Counter(lengths.get(resource_type, {}))
        changed[resource_type][len(name)] += change
    if not changed:
        return lengths
    ordered = {
        resource_type: {
            length: counter[length] for length in sorted(counter, reverse=True) if counter[length]
        }
        for resource_type, counter in changed.items()
    }
    return {**lengths, **ordered}
