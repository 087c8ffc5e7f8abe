"""Decides who may see, query and change tables: rights on tables follow those on topics.

A table's rows come from topics, and a person who may read these topics may read the table. A fix
changes the value of a record, so it needs WRITE on the table's topics. If the console has no
logins, everybody may do all with the console's own rights.

Invariant: topics are compared by their ids, too. Rights on a topic of another cluster that has the
same name do not count.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from log_service.common.access import AclOperation
from log_service.http.console.page_requests import PageRequest
from log_service.http.server.values import HttpError
from orchestration.console.values import TableFacts

SHOWN_TOPICS = 5
UNKNOWN_TOPICS = ("*",)
"""Stands for the topics of rows whose origin is not known. No login has a right to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The topics of the project that a person may read, and write.

    With ``is_unbound`` the person may read and write all of them.
    """

    is_unbound: bool = False
    readable: frozenset[str] = frozenset()
    writable: frozenset[str] = frozenset()

    def may_read(self, topics: Collection[str]) -> bool:
        """Whether all topics may be read."""
        return self.is_unbound or self.readable.issuperset(topics)

    def require_read(self, topics: Iterable[str], what: str) -> None:
        """Refuse an action that needs topics which the person may not read.

        ``what`` names the action in the text of the error.

        Raises:
            HttpError: 403, names the topics.
        """
        self._require(topics, self.readable, "READ", what)

    def require_write(self, topics: Iterable[str], what: str) -> None:
        """Refuse an action that needs topics which the person may not write.

        ``what`` names the action in the text of the error.

        Raises:
            HttpError: 403, names the topics.
        """
        self._require(topics, self.writable, "WRITE", what)

    def _require(
        self, topics: Iterable[str], allowed: frozenset[str], operation: str, what: str
    ) -> None:
        missing = [] if self.is_unbound else sorted({*topics} - allowed)
        if missing:
            more = len(missing) - SHOWN_TOPICS
            named = ", ".join(missing[:SHOWN_TOPICS]) + (f" and {more} more" if more > 0 else "")
            raise HttpError(403, f"{what} needs {operation} on the topics that it is from: {named}")


EVERYTHING = Rights(is_unbound=True)


def rights_on(
    operations: Mapping[str, tuple[str, frozenset[AclOperation]]], ids: Mapping[str, str]
) -> Rights:
    """Return the rights of a person.

    ``operations`` holds the id and the allowed operations of each topic at the cluster where the
    person logged in. ``ids`` holds the ids of these topics at the project's cluster.
    """
    own = {
        name: allowed
        for name, (topic_id, allowed) in operations.items()
        if ids.get(name) == topic_id
    }
    return Rights(
        readable=frozenset(name for name, allowed in own.items() if AclOperation.READ in allowed),
        writable=frozenset(name for name, allowed in own.items() if AclOperation.WRITE in allowed),
    )


def needed_topics(tables: Sequence[TableFacts], every_topic: Collection[str]) -> tuple[str, ...]:
    """Return the topics on which a person needs rights, for ``tables`` that share one name.

    If the source topics of a table are unknown, these are ``every_topic``, all of the project. If
    the project has none, no login has the rights (``UNKNOWN_TOPICS``).
    """
    if tables and all(table.sources for table in tables):
        return tuple(sorted({topic for table in tables for topic in table.sources}))
    return tuple(sorted(every_topic)) or UNKNOWN_TOPICS


async def rights_of(page_request: PageRequest, ids: Mapping[str, str]) -> Rights:
    """Return the rights of the person of a request. ``ids`` are those of the project's topics."""
    if not page_request.context.has_logins:
        return EVERYTHING
    if not ids:
        return Rights()
    found = await (await page_request.admin()).describe_topic_operations(sorted(ids))
    return rights_on(
        {name: (str(one.topic_id), one.operations) for name, one in found.items()}, ids
    )
