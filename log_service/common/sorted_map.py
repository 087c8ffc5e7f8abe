"""Immutable maps in key order, which are cheap to copy with changes.

They hold the metadata's image and the index of the ACLs. A map of at most ``CHUNK_SIZE`` entries is
a plain dictionary. A larger one is a ``ChunkedMap``: a list of such dictionaries, each with the
entries of one range of keys. A change copies the list and the chunk with the changed key, and
shares the other chunks with the old map. With 100,000 entries it copies about a hundredth of the
map.

The maps are sorted because equal images must iterate alike in every process. Hash tries are not
used, because their order follows the hashes of the keys, and Python chooses the hashes of strings
randomly in each process.

Invariants: a map iterates in the order of its keys. A map that ``sorted_map`` or ``changed_map``
has returned never changes.
"""

from bisect import bisect_right
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

CHUNK_SIZE = 128
"""The most entries of a chunk. A change copies one chunk, and one pointer to each of the others."""

REBUILT_SHARE = 8
"""Entries per change below which a new map costs less than changes chunk by chunk."""

SPARSE_SHARE = 4
"""Chunks whose average fill is less than one part in this number are packed again."""

_key_of = itemgetter(0)


def sorted_map(entries: Mapping[K, V]) -> Mapping[K, V]:
    """Return the entries as a map in key order. The keys must be comparable with each other.

    A small dictionary that is already in order is returned itself, so the caller must not change it
    any more.
    """
    if len(entries) <= CHUNK_SIZE and isinstance(entries, dict):
        keys: list[Any] = list(entries)
        if len(keys) <= 1 or keys == sorted(keys):
            return entries
    ordered = sorted(entries.items(), key=_key_of)
    if len(ordered) <= CHUNK_SIZE:
        return dict(ordered)
    chunks = [
        dict(ordered[start : start + CHUNK_SIZE]) for start in range(0, len(ordered), CHUNK_SIZE)
    ]
    return ChunkedMap(chunks, [next(iter(chunk)) for chunk in chunks], len(ordered))


def changed_map(base: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    """Return a copy of ``base`` with the changes. A change to None removes the key.

    ``base`` must come from ``sorted_map`` or this function. Without any change it is returned
    itself.
    """
    if not changes:
        return base
    if (
        not isinstance(base, dict)
        and isinstance(base, ChunkedMap)
        and len(changes) * REBUILT_SHARE < len(base)
    ):
        return base.changed(changes)
    changed = _changed_chunk(base, changes)
    return changed if len(changed) <= CHUNK_SIZE else sorted_map(changed)


def _changed_chunk(chunk: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    merged: dict[Any, Any] = chunk.copy() if isinstance(chunk, dict) else dict(chunk.items())
    merged.update(changes)
    if None in changes.values():
        merged = {key: value for key, value in merged.items() if value is not None}
    elif len(merged) == len(chunk):
        return merged  # no key is new, so that the order is right
    keys = sorted(merged)
    return dict(zip(keys, map(merged.__getitem__, keys), strict=True))


class ChunkedMap(Mapping[K, V]):
    """A map with more than ``CHUNK_SIZE`` entries. ``sorted_map`` makes it.

    ``first_keys`` are the first keys of the chunks.
    """

    __slots__ = ("_chunks", "_count", "_first_keys")

    def __init__(self, chunks: list[dict[K, V]], first_keys: list[Any], count: int) -> None:
        self._chunks = chunks
        self._first_keys = first_keys
        self._count = count

    def __repr__(self) -> str:
        return f"<ChunkedMap of {self._count} entries in {len(self._chunks)} chunks>"

    @property
    def chunks(self) -> Sequence[Mapping[K, V]]:
        """The parts of the map in the order of their keys."""
        return self._chunks

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._chunks)

    def __contains__(self, key: object) -> bool:
        return key in self._chunks[self._place_of(key)]

    def __getitem__(self, key: K) -> V:
        return self._chunks[self._place_of(key)][key]

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if there is none."""
        return self._chunks[self._place_of(key)].get(key, default)

    def items(self) -> ItemsView[K, V]:
        """Return a view of the entries."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Return a view of the values."""
        return _Values(self)

    def iterate_items(self) -> Iterator[tuple[K, V]]:
        """Yield the entries in key order."""
        return chain.from_iterable(chunk.items() for chunk in self._chunks)

    def iterate_values(self) -> Iterator[V]:
        """Yield the values in key order."""
        return chain.from_iterable(chunk.values() for chunk in self._chunks)

    def changed(self, changes: Mapping[K, V | None]) -> Mapping[K, V]:
        """Return the map with a few changes, made chunk by chunk."""
        chunks, first_keys, count = self._chunks.copy(), self._first_keys, self._count
        for place, of_chunk in sorted(self._by_place(changes).items(), key=_key_of, reverse=True):
            before = chunks[place]
            after = _changed_chunk(before, of_chunk)
            if len(after) == len(before) and next(iter(after)) == first_keys[place]:
                chunks[place] = after
                continue
            parts = list(_split(after))
            chunks[place : place + 1] = parts
            first_keys = [
                *first_keys[:place],
                *(next(iter(part)) for part in parts),
                *first_keys[place + 1 :],
            ]
            count += len(after) - len(before)
        changed = ChunkedMap(chunks, first_keys, count)
        is_sparse = count * SPARSE_SHARE < len(chunks) * CHUNK_SIZE
        return sorted_map(changed) if is_sparse or count <= CHUNK_SIZE else changed

    def _by_place(self, changes: Mapping[K, V | None]) -> dict[int, dict[K, V | None]]:
        """Group the changes by the index of the chunk to which their keys belong."""
        by_place: dict[int, dict[K, V | None]] = {}
        for key, value in changes.items():
            by_place.setdefault(self._place_of(key), {})[key] = value
        return by_place

    def _place_of(self, key: Any) -> int:
        place = bisect_right(self._first_keys, key)
        return place - 1 if place else 0


def _split(chunk: dict[K, V]) -> Iterator[dict[K, V]]:
    """Yield the entries of a chunk as chunks of about the same size.

    None of them is empty or too large.
    """
    if not chunk:
        return
    part_count = -(-len(chunk) // CHUNK_SIZE)
    size = -(-len(chunk) // part_count)
    entries = list(chunk.items())
    for start in range(0, len(entries), size):
        yield dict(entries[start : start + size])


class _Items(ItemsView[K, V], Generic[K, V]):
    __slots__ = ("_map",)

    def __init__(self, of: ChunkedMap[K, V]) -> None:
        super().__init__(of)
        self._map = of

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._map.iterate_items()


class _Values(ValuesView[V], Generic[V]):
    __slots__ = ("_map",)

    def __init__(self, of: ChunkedMap[Any, V]) -> None:
        super().__init__(of)
        self._map = of

    def __iter__(self) -> Iterator[V]:
        return self._map.iterate_values()
