"""Reads rows of a SQL table as change records: JSON for a row, a tombstone for a deleted row.

Changes are found in two ways, which may be combined. *By cursor*: rows whose cursor column (a
number or a time that grows with every change) is greater than that of the last sent row, in the
order of cursor and key. *By comparison*: all rows are compared with the topic's value of each key,
which finds changes without a cursor, deletions, and rows that became visible late. This module
decides the statements and the records. It uses only SQLAlchemy, so it works with any database that
SQLAlchemy supports.

Invariant: a comparison relies only on the topic's values, so it needs no state of its own and sends
nothing twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from orchestration.databases.deadlines import (
    CONNECT_WITHIN_S,
    connect_arguments,
    is_cut_off,
    limit_statements,
)
from orchestration.databases.urls import shown_url
from orchestration.log_client.protocol import LogClient, OutgoingRecord
from orchestration.sources.json_rows import json_key, json_value
from orchestration.sources.reading import (
    LookTooLongError,
    Portion,
    Position,
    Situation,
    SourceError,
    portioned,
    settled_ranges,
)

ROWS_AT_ONCE = 5_000
LATER = "_is_later"
"""The column that says that the cursor will send a row."""
DIGEST_BYTES = 16
LOOK_WITHIN_S = 5
"""Most seconds of a check for newer rows. The checks of all sources share one sensor tick."""
Kept = Mapping[bytes, bytes]
"""The digest of the topic's value by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRows:
    """A table or view of the database at ``url``.

    With ``cursor`` None there are only comparisons, and with ``compare_every_s`` None only the
    cursor. Rows whose cursor is a time younger than ``delay_s`` seconds are left for later, because
    transactions that began earlier may still commit rows with older times.
    """

    url: str = field(repr=False)
    table: str
    key: tuple[str, ...]
    cursor: str | None = None
    columns: tuple[str, ...] = ()
    compare_every_s: float | None = None
    delay_s: float = 0.0

    def is_wanting(self, position: Position | None, now: datetime) -> bool:
        """Return whether there are rows after the last cursor, or a comparison is due.

        The database must respond within ``LOOK_WITHIN_S``.

        :raises LookTooLongError: PostgreSQL canceled the query.
        :raises SourceError: the database cannot be reached in time, or cannot be queried.
        """
        if self.cursor is None or self._is_comparison_due(position, now):
            return self._is_comparison_due(position, now)
        with self._reflected(is_a_look=True) as (connection, table):
            newer = self._newer(table, (position or {}).get("after"), now).limit(1)
            return connection.execute(newer).first() is not None

    def portions(
        self, position: Position | None, situation: Situation, note: Callable[[str], None]
    ) -> Iterator[Portion]:
        """Yield the rows after the last cursor, or the result of a comparison if that is due."""
        if self._is_comparison_due(position, situation.now):
            note(f"comparing the table {self.table} with the topic {situation.target.topic}")
            yield from self._by_comparison(position or {}, situation)
        elif self.cursor is not None:
            yield from self._by_cursor(position or {}, situation.now)

    def _is_comparison_due(self, position: Position | None, now: datetime) -> bool:
        if self.compare_every_s is None:
            return self.cursor is None
        compared = (position or {}).get("compared_at")
        return compared is None or now.timestamp() - compared >= self.compare_every_s

    def _by_cursor(self, position: Position, now: datetime) -> Iterator[Portion]:
        with self._reflected() as (connection, table):
            pages = self._pages(
                connection,
                lambda place: self._newer(table, place, now),
                self._order(),
                position.get("after"),
            )
            for records, after in portioned((self._record(row), place) for row, place in pages):
                yield Portion(records=records, position={**position, "after": after})

    def _by_comparison(self, position: Position, situation: Situation) -> Iterator[Portion]:
        """Yield how the table differs from the topic: new or changed rows, then deleted keys.

        With a cursor, rows that came after its last row when the comparison began are skipped here.
        They are sent by cursor later.
        """
        kept = dict(kept_values(situation.log, situation.target.topic))
        with self._reflected() as (connection, table):
            last = (
                None if self.cursor is None else self._last_place(connection, table, situation.now)
            )
            pages = self._pages(
                connection, lambda place: self._compared(table, last, place), self.key, None
            )
            differing = self._differing((row for row, _ in pages), kept)
            for records, _ in portioned(differing):
                yield Portion(
                    records=records,
                    position=position,
                    counts={"deleted": sum(one.value is None for one in records)},
                )
        place = {} if last is None else {"after": last}
        yield Portion(
            records=(),
            position={**position, **place, "compared_at": situation.now.timestamp()},
            counts={"comparisons": 1},
        )

    def _differing(
        self, rows: Iterator[Mapping[str, Any]], kept: dict[bytes, bytes]
    ) -> Iterator[tuple[OutgoingRecord, Any]]:
        """Yield rows that differ from the topic, then deletions of keys without a row."""
        for found in rows:
            row = {name: value for name, value in found.items() if name != LATER}
            record = self._record(row)
            assert record.key is not None
            before = kept.pop(record.key, None)
            if not found[LATER] and before != digest(record.value):
                yield record, None
        for key in sorted(kept):
            yield OutgoingRecord(key=key, value=None, headers=(("op", b"delete"),)), None

    def _pages(
        self,
        connection: sa.Connection,
        chosen: "Callable[[Any], sa.Select[Any]]",
        order: Sequence[str],
        place: Any,
    ) -> Iterator[tuple[Mapping[str, Any], Any]]:
        """Yield rows page by page, each row with its values of the columns ``order``.

        The query ``chosen`` continues after the values of the last row. Each page is one statement,
        so no statement is open for long.
        """
        while True:
            rows = connection.execute(chosen(place).limit(ROWS_AT_ONCE)).mappings().all()
            connection.rollback()
            for found in rows:
                row = dict(found)
                missing = [name for name in self.key if row[name] is None]
                if missing:
                    raise SourceError(
                        f"a row of the table {self.table} has no {', '.join(missing)}: name columns"
                        " as key that each row has"
                    )
                place = [encoded(row[name]) for name in order]
                yield row, place
            if len(rows) < ROWS_AT_ONCE:
                return

    def _last_place(self, connection: sa.Connection, table: sa.Table, now: datetime) -> Any:
        """Return cursor and key of the last row that may be read by cursor now, or None."""
        order = [table.c[name] for name in self._order()]
        newest = (
            self._newer(table, None, now)
            .order_by(None)
            .order_by(*(column.desc() for column in order))
            .limit(1)
        )
        row = connection.execute(newest).mappings().first()
        connection.rollback()
        return None if row is None else [encoded(row[name]) for name in self._order()]

    def _compared(self, table: sa.Table, last: Any, place: Any) -> "sa.Select[Any]":
        """Return the query of all rows after ``place``, in the order of their keys.

        A flag in each row tells whether it is left to the cursor.
        """
        later: sa.ColumnElement[bool] = sa.false()
        if self.cursor is not None:
            later = table.c[self.cursor].is_not(None)
            if last is not None:
                later = sa.and_(
                    later,
                    _beyond(
                        [table.c[name] for name in self._order()], [decoded(one) for one in last]
                    ),
                )
        keys = [table.c[name] for name in self.key]
        chosen = sa.select(
            *self._columns(table), sa.case((later, 1), else_=0).label(LATER)
        ).order_by(*keys)
        return (
            chosen
            if place is None
            else chosen.where(_beyond(keys, [decoded(one) for one in place]))
        )

    def _newer(self, table: sa.Table, place: Any, now: datetime) -> "sa.Select[Any]":
        """Return the query of the rows after ``place``, in the order of cursor and key."""
        assert self.cursor is not None
        order = [table.c[name] for name in self._order()]
        chosen = (
            sa.select(*self._columns(table))
            .where(table.c[self.cursor].is_not(None))
            .order_by(*order)
        )
        if place is not None:
            chosen = chosen.where(_beyond(order, [decoded(one) for one in place]))
        if self.delay_s and isinstance(table.c[self.cursor].type, sa.DateTime):
            latest = now.astimezone(UTC) - timedelta(seconds=self.delay_s)
            is_zoned = bool(getattr(table.c[self.cursor].type, "timezone", False))
            chosen = chosen.where(
                table.c[self.cursor] <= (latest if is_zoned else latest.replace(tzinfo=None))
            )
        return chosen

    def _order(self) -> tuple[str, ...]:
        """Return the columns by which rows are read by cursor: the cursor, then the key."""
        return (
            ()
            if self.cursor is None
            else (self.cursor, *(one for one in self.key if one != self.cursor))
        )

    def _columns(self, table: sa.Table) -> "list[sa.Column[Any]]":
        wanted = (
            dict.fromkeys((*self.columns, *self.key, *([self.cursor] if self.cursor else [])))
            if self.columns
            else table.c.keys()
        )
        return [table.c[name] for name in wanted]

    def _record(self, row: Mapping[str, Any]) -> OutgoingRecord:
        return OutgoingRecord(
            key=json_key([row[name] for name in self.key]),
            value=json_value(row),
            headers=(("op", b"upsert"),),
        )

    @contextmanager
    def _reflected(self, *, is_a_look: bool = False) -> Iterator[tuple[sa.Connection, sa.Table]]:
        """Yield a connection, and the table with the columns that the database has now.

        ``is_a_look`` is set for a check for new rows, whose statements are bounded in time.

        :raises LookTooLongError: a check was canceled.
        :raises SourceError: the database cannot be reached, or the table lacks a column.
        """
        engine = _engine(self.url, LOOK_WITHIN_S if is_a_look else None)
        try:
            with engine.connect() as connection:
                schema, _, name = self.table.rpartition(".")
                table = sa.Table(
                    name, sa.MetaData(), schema=schema or None, autoload_with=connection
                )
                wanted = (*self.key, *self.columns, *([self.cursor] if self.cursor else []))
                unknown = sorted({one for one in wanted if one not in table.c})
                if unknown:
                    raise SourceError(
                        f"the table {self.table} has no columns {', '.join(unknown)}; it has"
                        f" {', '.join(table.c.keys())}"
                    )
                yield connection, table
        except sa.exc.NoSuchTableError as error:
            raise SourceError(
                f"the database at {shown_url(engine.url)} has no table {self.table}"
            ) from error
        except sa.exc.SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            text = str(cause).strip().partition("\n")[0]
            if is_a_look and is_cut_off(cause):
                advice = (
                    f"an index on {', '.join(self._order())} of the table {self.table} makes it"
                    " short"
                )
                raise LookTooLongError(
                    f"{shown_url(engine.url)}: {text}. A look may take {LOOK_WITHIN_S} s: {advice}"
                ) from error
            is_passing = isinstance(error, sa.exc.OperationalError)
            raise SourceError(f"{shown_url(engine.url)}: {text}", is_passing=is_passing) from error
        finally:
            engine.dispose()


def kept_values(log: LogClient, topic: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield each key for which the topic has a value, with the digest of its newest value.

    The last record read is the newest, because all records of a key are in one partition.

    :raises SourceError: retention removes the newest values of keys from the topic.
    """
    configs = log.topic_configs(topic)
    if configs.get("cleanup.policy") != "compact" and (
        configs.get("retention.ms"),
        configs.get("retention.bytes", "-1"),
    ) != ("-1", "-1"):
        raise SourceError(
            f"the topic {topic} forgets records after a while, and a comparison needs the newest of"
            " each key: give it cleanup.policy=compact, or retention.ms=-1"
        )
    kept: dict[bytes, bytes] = {}
    read = log.range_reader()
    for one in settled_ranges(log, topic):
        for batch in read(topic, one):
            for key, value in zip(
                batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True
            ):
                if key is not None and value is None:
                    kept.pop(key, None)
                elif key is not None:
                    kept[key] = digest(value)
    yield from kept.items()


def digest(value: bytes | None) -> bytes:
    """Return the digest of a value, which is kept in memory instead of the value."""
    return blake2b(value or b"", digest_size=DIGEST_BYTES).digest()


def _engine(url: str, within_s: int | None = None) -> sa.Engine:
    """Return an engine for reading, whose transactions do not block other connections.

    ``within_s`` bounds the time of each statement.

    :raises SourceError: the URL is not valid, or its driver is not installed.
    """
    try:
        parsed = sa.make_url(url)
        connect_s = CONNECT_WITHIN_S if within_s is None else within_s
        engine = sa.create_engine(
            parsed, connect_args=connect_arguments(parsed, connect_s=connect_s, lock_s=within_s)
        )
    except (sa.exc.ArgumentError, ImportError) as error:
        example = "postgresql+psycopg://user@host/name"
        raise SourceError(
            f"the database's URL cannot be used: {error}. Give SQLAlchemy's form, e.g. {example}"
        ) from error
    if within_s is not None:
        limit_statements(engine, within_s)
    return engine


def _beyond(order: "Sequence[sa.Column[Any]]", place: Sequence[Any]) -> "sa.ColumnElement[bool]":
    """Return the condition that a row comes after the values ``place`` in ``order``.

    It is written column by column, because not every database can compare rows.
    """
    cases = [
        sa.and_(
            *(column == value for column, value in zip(order[:at], place[:at], strict=True)),
            order[at] > place[at],
        )
        for at in range(len(order))
    ]
    return sa.or_(*cases)


def encoded(value: Any) -> list[Any]:
    """Return a value of a cursor or key in a form that JSON can hold and ``decoded`` reads."""
    if isinstance(value, datetime):
        return ["datetime", value.isoformat()]
    if isinstance(value, date):
        return ["date", value.isoformat()]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, bool | int | float | str):
        return ["plain", value]
    raise SourceError(
        f"a cursor or key of type {type(value).__name__} cannot be remembered: name another column"
    )


def decoded(stored: Sequence[Any]) -> Any:
    """Return the value from which ``encoded`` made ``stored``."""
    kind, value = stored
    readers: dict[str, Callable[[Any], Any]] = {
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "decimal": Decimal,
        "bytes": bytes.fromhex,
        "plain": lambda one: one,
    }
    return readers[kind](value)
