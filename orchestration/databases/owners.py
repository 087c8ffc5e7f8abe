"""Keeps the owner of a table in a database, which is one asset of one lake.

A second writer would replace, double or delete the rows of the first. Decides who may write a
table. The database itself keeps the owner, in the table ``tidelog_owners``, because it is the only
place that all writers know. A table without owner is new or of an earlier release. Its first writer
claims it, unless the caller finds another writer's notes on its progress in the database.
Invariant: ``hold`` runs in the transaction that writes rows, and locks the owner until it ends.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import sqlalchemy as sa

from orchestration.databases.types import KEY_LENGTH
from orchestration.lake.durable import sync
from orchestration.offsets.planning import ProgressError

OWNERS = "tidelog_owners"
LAKE_ID = ".tidelog-lake-id"
"""The file in the lake's root that tells this lake from others, wherever it is moved to."""
PLACE_LENGTH = 255
_owners = sa.Table(
    OWNERS,
    sa.MetaData(),
    sa.Column("table_name", sa.String(KEY_LENGTH), primary_key=True),
    sa.Column("lake_id", sa.String(64), nullable=False),
    sa.Column("asset", sa.String(KEY_LENGTH), nullable=False),
    sa.Column("deployment", sa.String(KEY_LENGTH), nullable=False),
    sa.Column("place", sa.String(PLACE_LENGTH), nullable=False),
    sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
)


class NotOwnerError(ProgressError):
    """The table belongs to another owner.

    The text names the owner, and says how to take the table over.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of a table: one asset, such as ``lake/accounts``, of one lake.

    ``place`` shows people where the lake is. ``deployment`` is given if the table's progress is
    stored under the deployment's name, and is part of the identity then. Otherwise it is empty.
    """

    lake_id: str
    asset: str
    deployment: str = ""
    place: str = ""

    def is_same(self, other: "Owner") -> bool:
        """Return whether both are the same owner, even if the lake was moved."""
        return (self.lake_id, self.asset, self.deployment) == (
            other.lake_id,
            other.asset,
            other.deployment,
        )

    def __str__(self) -> str:
        deployment = f", deployment {self.deployment}" if self.deployment else ""
        return f"{self.asset} of the lake {self.place}{deployment}"

    @property
    def name(self) -> str:
        """The asset's last part, by which ``tidelog take-over`` knows it."""
        return self.asset.rpartition("/")[2]


def owner_of(root: Path, asset: str, deployment: str | None = None) -> Owner:
    """Return the owner for ``asset`` of the lake in ``root``. A lake without id gets one.

    :raises OSError: the id cannot be read or written.
    """
    place = f"{socket.gethostname()}:{root.absolute()}"[:PLACE_LENGTH]
    return Owner(lake_id=lake_id(root), asset=asset, deployment=deployment or "", place=place)


def lake_id(root: Path) -> str:
    """Return the id of the lake in ``root``.

    The id is created at first use. If several processes create one at once, one wins.

    :raises OSError: the file cannot be read or written.
    """
    path = root / LAKE_ID
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        draft = root / f"{LAKE_ID}.{uuid4().hex}"
        try:
            draft.write_text(f"{uuid4()}\n")
            sync(draft)
            _place(draft, path)
            sync(root)
        finally:
            draft.unlink(missing_ok=True)
    return path.read_text().strip()


def _place(draft: Path, path: Path) -> None:
    """Give ``draft`` the name ``path``, unless that name is taken.

    If the file system has no hard links, the name is checked first, and then the file is renamed.
    """
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:
        if not path.exists():
            draft.rename(path)


def refusal(place: str, table: str, held: str, owner: Owner) -> NotOwnerError:
    """Return the error for ``owner``, which tries to write a table that belongs to ``held``."""
    return NotOwnerError(
        f"the table {table} in {place} belongs to {held}. Nothing was written, because {owner}"
        " would change rows that are not its own. Give one of them another table. Where"
        f" {owner.asset} is to go on with this one in place of the other: tidelog take-over"
        f" {owner.name}"
    )


def create_owners(connection: sa.Connection | sa.Engine) -> None:
    """Create the table of owners if there is none."""
    _owners.create(connection, checkfirst=True)


def sql_owner(connection: sa.Connection, table: str) -> tuple[Owner, datetime] | None:
    """Return the owner of ``table`` and when it last wrote, None if the database knows none."""
    found = (
        connection.execute(sa.select(_owners).where(_owners.c.table_name == table.lower()))
        .mappings()
        .first()
    )
    if found is None:
        return None
    names = {name: str(found[name]) for name in ("lake_id", "asset", "deployment", "place")}
    return Owner(**names), found["written_at"]


def hold(
    connection: sa.Connection,
    place: str,
    table: str,
    owner: Owner,
    others: Callable[[], str | None],
) -> None:
    """Lock the table's owner, which has to be ``owner``, until the transaction ends.

    Also store the time as that of the owner's last write. A table without a known owner gets
    ``owner``, unless ``others`` names another writer. ``others`` looks for one in the rest of the
    database, and returns None if there is none.

    :raises NotOwnerError: the table belongs to another owner.
    :raises IntegrityError: another owner claims it at this moment.
    """
    is_own = sa.and_(
        _owners.c.table_name == table.lower(),
        _owners.c.lake_id == owner.lake_id,
        _owners.c.asset == owner.asset,
        _owners.c.deployment == owner.deployment,
    )
    now = datetime.now(UTC)
    if (
        connection.execute(
            _owners.update().where(is_own).values(place=owner.place, written_at=now)
        ).rowcount
        == 1
    ):
        return
    found = sql_owner(connection, table)
    held = others() if found is None else owner_text(*found)
    if held is not None:
        raise refusal(place, table, held, owner)
    _insert(connection, table, owner, now)


def owner_text(owner: Owner, written_at: datetime) -> str:
    """Return an owner, and when it last wrote, as part of a sentence."""
    at = written_at if written_at.tzinfo is None else written_at.astimezone(UTC)
    return f"{owner}, which last wrote it at {at:%Y-%m-%d %H:%M:%S} UTC"


def give(connection: sa.Connection, table: str, owner: Owner) -> None:
    """Make ``owner`` the owner of ``table``, even if another one owned it before."""
    connection.execute(_owners.delete().where(_owners.c.table_name == table.lower()))
    _insert(connection, table, owner, datetime.now(UTC))


def _insert(connection: sa.Connection, table: str, owner: Owner, at: datetime) -> None:
    names = {
        "lake_id": owner.lake_id,
        "asset": owner.asset,
        "deployment": owner.deployment,
        "place": owner.place,
    }
    connection.execute(_owners.insert().values(table_name=table.lower(), written_at=at, **names))
