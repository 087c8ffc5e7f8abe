"""Checks whether the database of TIDELOG_POSTGRES_URL can be reached.

If not, one sentence without the password gives the reason. Dagster would try for a while and then
report that it tried too often. Here the driver asks the database once and reports its answer.
"""

import re
from urllib.parse import unquote, urlsplit

from orchestration.settings import POSTGRES_SCHEME, SettingsError

TIMEOUT_S = 10
AUTHORITY = re.compile(rf"{POSTGRES_SCHEME}(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
ENCODED = (
    "characters such as '/', ':', '@' and ' ' in its user or password have to be written as %2F,"
    " %3A, %40 and %20"
)


def check_postgres(url: str) -> None:
    """Connect to the database once, and disconnect.

    :raises SettingsError: the database cannot be reached or refuses the login. The text gives the
        reason.
    """
    import psycopg  # noqa: PLC0415 - only if PostgreSQL is used at all

    unreadable = (
        f"TIDELOG_POSTGRES_URL cannot be read as {POSTGRES_SCHEME}user:password@host/name:"
        f" {ENCODED}"
    )
    if not is_clear(url):
        raise SettingsError(unreadable)
    try:
        psycopg.connect(url, connect_timeout=TIMEOUT_S).close()
    except psycopg.ProgrammingError as error:
        raise SettingsError(unreadable) from error
    except psycopg.Error as error:
        reason = " ".join(without_password(str(error), url).split())
        raise SettingsError(
            f"the database that TIDELOG_POSTGRES_URL names cannot be used: {reason}"
        ) from error


def is_clear(url: str) -> bool:
    """Return whether a URL shows unambiguously where its password ends.

    If the password contains an ``@`` or a ``/``, text after that would be shown as host or port.
    """
    found = AUTHORITY.match(url)
    if found is None:
        return False
    authority, rest = found["authority"], found["rest"]
    _, colon, port = authority.rpartition(":")
    return authority.count("@") <= 1 and not (
        "@" in rest and "@" not in authority and colon and not port.isdecimal()
    )


def without_password(text: str, url: str) -> str:
    """Return ``text`` without the password of ``url``, both decoded and percent-encoded."""
    password = urlsplit(url).password
    for secret in {password, unquote(password)} if password else ():
        text = text.replace(secret, "***")
    return text
