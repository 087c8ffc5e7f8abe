"""All ACLs of a cluster, so that those of one resource are found without looking at the others.

Decides which ACLs are about a resource: those whose pattern is literal and has its name, those whose pattern is a prefix of its name, and
those of the literal ``*``. What they say is for ``decision``.

A prefix is found by its length: the index knows which lengths its prefixes have, and looks up the beginning of the name of each such
length. That takes as many look-ups as there are lengths, at most as many as the name has characters, however many ACLs there are.

Invariants: an index never changes; a changed one shares all with the one before but the few chunks that the changes fall into. The ACLs
under one name are in the order of ``sort_key``.
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
"""What is known of an ACL, in the order of ``sort_key``: principal, host, operation, permission."""
Section = Mapping[tuple[int, str], Acls]
"""ACLs by the type and the name that they are filed under."""
Blocks = tuple[Acls, ...]
NO_ACLS: Acls = ()
NO_BLOCKS: Blocks = ()
BLOCK_SIZE = 32
"""The most ACLs of a block of one principal: a new one copies the last block, and one pointer to each of the others."""
Lengths = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclIndex:
    """The ACLs by what they are about, and by whom they are about."""

    literal: Section = field(default_factory=dict)
    prefixed: Section = field(default_factory=dict)
    by_principal: Mapping[tuple[int, str], Blocks] = field(default_factory=dict)
    """By the type of the resource and the principal: in blocks, because one principal may have very many ACLs; in no particular order."""
    prefix_lengths: Lengths = field(default_factory=dict)
    """How many names of prefixes there are, by the type of the resource and their length, the longest first."""
    count: int = 0

    def __repr__(self) -> str:
        return f"<AclIndex of {self.count} ACLs>"

    def about(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Yield the ACLs about a resource: the longest name first, the literal ``*`` last."""
        yield from self.literal.get((resource_type, name), NO_ACLS)
        size = len(name)
        for length in self.prefix_lengths.get(resource_type, ()):
            if length <= size:
                yield from self.prefixed.get((resource_type, name[:length]), NO_ACLS)
        if name != WILDCARD:
            yield from self.literal.get((resource_type, WILDCARD), NO_ACLS)

    def named(self, resource_type: int, pattern_type: int, name: str) -> Acls:
        """Return the ACLs of exactly one pattern."""
        return (self.prefixed if pattern_type == PatternType.PREFIXED else self.literal).get((resource_type, name), NO_ACLS)

    def holds(self, wanted: Place) -> bool:
        """Whether an ACL with that place is there. Few are looked at, for one name may have thousands."""
        resource_type, resource_name, *order = wanted
        acls, key = self.named(resource_type, wanted[2], resource_name), tuple(order)
        position = bisect_left(acls, key, key=sort_key)
        return position < len(acls) and sort_key(acls[position]) == key

    def beginning(self, resource_type: int, pattern_type: int, name: str, known: Known) -> Acls:
        """Return those of exactly one pattern whose place begins as ``known`` does behind the pattern. Few of the others are looked at."""
        acls, wanted = self.named(resource_type, pattern_type, name), (pattern_type, *known)
        size = len(wanted)
        start = bisect_left(acls, wanted, key=lambda acl: sort_key(acl)[:size])
        return acls[start : bisect_right(acls, wanted, lo=start, key=lambda acl: sort_key(acl)[:size])]

    def all(self) -> Iterator[Acl]:
        """Yield every ACL."""
        for section in (self.literal, self.prefixed):
            for acls in section.values():
                yield from acls

    def of_principal(self, resource_type: int, principal: str) -> Iterator[Acl]:
        """Yield the ACLs on resources of a type that name a principal, in no particular order."""
        return chain.from_iterable(self.by_principal.get((resource_type, principal), NO_BLOCKS))

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> "AclIndex":
        """Return the index with some ACLs more and some fewer. An ACL that is removed is the very object that was added."""
        of_literal, of_prefix, of_principal = _Changes(self.literal), _Changes(self.prefixed), _PrincipalChanges(self.by_principal)
        count = self.count
        for acl in removed:
            (of_prefix if acl.pattern_type == PatternType.PREFIXED else of_literal).remove(acl.resource_name, acl)
            of_principal.remove(acl.principal, acl)
            count -= 1
        of_literal.take_out()
        of_prefix.take_out()
        of_principal.take_out()
        for acl in added:
            (of_prefix if acl.pattern_type == PatternType.PREFIXED else of_literal).add(acl.resource_name, acl)
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
"""By the type and the name or principal, the ids of the objects that are removed.

They are looked for together, each by being the same object: one by one, a thousand ACLs of one principal are a million comparisons.
"""


def _without(acls: Iterable[Acl], gone: set[int]) -> list[Acl]:
    """Return the ACLs that stay. All that go must be among them."""
    found = list(acls)
    kept = [acl for acl in found if id(acl) not in gone]
    assert len(kept) == len(found) - len(gone), "an ACL is removed that is not in the index"
    return kept


class _Changes:
    """What changes in one section. Each name that changes is read and written once, however many of its ACLs come and go."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._changed: dict[tuple[int, str], list[Acl]] = {}
        self._gone: Gone = {}

    def add(self, name: str, acl: Acl) -> None:
        """File an ACL under a name."""
        key = (acl.resource_type, name)
        acls = self._changed.get(key)
        if acls is None:
            acls = self._changed[key] = list(self._section.get(key, NO_ACLS))
        insort(acls, acl, key=sort_key)

    def remove(self, name: str, acl: Acl) -> None:
        """Take an ACL out from under a name; ``take_out`` does it, before any is added."""
        self._gone.setdefault((acl.resource_type, name), set()).add(id(acl))

    def take_out(self) -> None:
        """Take out what is removed."""
        for key, gone in self._gone.items():
            self._changed[key] = _without(self._section.get(key, NO_ACLS), gone)

    def build(self) -> Section:
        """Return the section with the changes."""
        return changed_map(self._section, {key: tuple(acls) or None for key, acls in self._changed.items()})

    def name_changes(self) -> Iterator[tuple[int, str, int]]:
        """Yield (type, name, 1 or -1) of each name that has come or gone."""
        for (resource_type, name), acls in self._changed.items():
            change = bool(acls) - ((resource_type, name) in self._section)
            if change:
                yield resource_type, name, change


class _PrincipalChanges:
    """What changes of principals. New ACLs go into the last block, so that one that has thousands costs no copy of them all."""

    def __init__(self, section: Mapping[tuple[int, str], Blocks]) -> None:
        self._section = section
        self._changed: dict[tuple[int, str], list[Acls]] = {}
        self._gone: Gone = {}

    def add(self, principal: str, acl: Acl) -> None:
        """File an ACL under its principal."""
        key = (acl.resource_type, principal)
        blocks = self._changed.get(key)
        if blocks is None:
            blocks = self._changed[key] = list(self._section.get(key, NO_BLOCKS))
        if blocks and len(blocks[-1]) < BLOCK_SIZE:
            blocks[-1] = (*blocks[-1], acl)
        else:
            blocks.append((acl,))

    def remove(self, principal: str, acl: Acl) -> None:
        """Take an ACL out; as ``_Changes.remove``."""
        self._gone.setdefault((acl.resource_type, principal), set()).add(id(acl))

    def take_out(self) -> None:
        """Take out what is removed."""
        for key, gone in self._gone.items():
            kept = _without(chain.from_iterable(self._section.get(key, NO_BLOCKS)), gone)
            self._changed[key] = [tuple(kept[start : start + BLOCK_SIZE]) for start in range(0, len(kept), BLOCK_SIZE)]

    def build(self) -> Mapping[tuple[int, str], Blocks]:
        """Return the section with the changes."""
        return changed_map(self._section, {key: tuple(blocks) or None for key, blocks in self._changed.items()})


def _changed_lengths(lengths: Lengths, changes: Iterable[tuple[int, str, int]]) -> Lengths:
    changed: dict[int, Counter[int]] = {}
    for resource_type, name, change in changes:
        if resource_type not in changed:
            changed[resource_type] = Counter(lengths.get(resource_type, {}))
        changed[resource_type][len(name)] += change
    if not changed:
        return lengths
    ordered = {
        resource_type: {length: counter[length] for length in sorted(counter, reverse=True) if counter[length]}
        for resource_type, counter in changed.items()
    }
    return {**lengths, **ordered}
