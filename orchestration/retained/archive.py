"""The declaration of a topic's archive: when records are archived, and how long they are kept.

Checks a declaration, and decides the name of the table. Knows only the topic's name, and no run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orchestration.lake.tables import TABLE_NAME

SUFFIX = "_archive"
DAY_S = 86_400.0
OTHER_LETTERS = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The rules by which a topic is archived.

    A partition with ``chunk_records`` waiting offsets is archived at once, and no file holds more.
    All waiting records are archived when ``within_s`` seconds have passed since this was last done.
    So busy topics have large files, and quiet ones few. A file is removed when its newest record is
    ``kept_days`` old. None keeps all files.

    :raises ValueError: a number is too small.
    """

    chunk_records: int = 250_000
    within_s: int = 3_600
    kept_days: float | None = None

    def __post_init__(self) -> None:
        if self.chunk_records < 1 or self.within_s < 1:
            raise ValueError(
                f"an archive needs chunk_records and within_s of at least 1: {self.chunk_records},"
                f" {self.within_s}"
            )
        if self.kept_days is not None and self.kept_days <= 0:
            raise ValueError(
                f"kept_days is {self.kept_days:g}: give a number above 0, or None to keep all"
            )

    @property
    def kept_s(self) -> float | None:
        """Return the age in seconds of a file's newest record at which the file is removed.

        None keeps all files.
        """
        return None if self.kept_days is None else self.kept_days * DAY_S


def archive_table(topic: str) -> str:
    """Return the name of the lake table that holds the archive of ``topic``.

    >>> archive_table("eu.orders-v2")
    'eu_orders_v2_archive'

    :raises ValueError: the topic's name is too long for a table's.
    """
    name = OTHER_LETTERS.sub("_", topic) + SUFFIX
    name = f"_{name}" if name[0].isdigit() else name
    if not TABLE_NAME.fullmatch(name):
        raise ValueError(
            f"the topic {topic} cannot be archived: the table's name {name} would be longer than"
            " 128 letters"
        )
    return name


def validate_archive(topic: str, archive: Archive, configs: Mapping[str, str]) -> None:
    """Refuse an archive whose records retention may remove first, and a topic that cannot have one.

    :raises ValueError: names the reason.
    """
    archive_table(topic)
    try:
        retention_ms = int(configs.get("retention.ms", "-1"))
    except ValueError:
        return  # the log service refuses it, and says why
    if 0 <= retention_ms <= archive.within_s * 1000:
        raise ValueError(
            f"retention.ms of topic {topic} is {retention_ms}, and its archive reads what waits"
            f" every {archive.within_s} s: records would be gone before. Give Archive(within_s=...)"
            " a smaller number, or retention.ms a larger one"
        )
