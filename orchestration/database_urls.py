"""URLs of databases in SQLAlchemy's form: whether a password stands in one, and how it is shown without."""

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

HIDDEN = "hidden"
SECRET_WORDS = ("password", "passcode", "passphrase", "token", "secret")
SECRET_NAMES = frozenset({"passwd", "pwd"})
ODBC = "odbc_connect"
"""The option that holds a whole connection string of ODBC: ``NAME=value`` between semicolons."""


def has_password(url: str) -> bool:
    """Whether a password stands in a URL; what cannot be read as one is said to be wrong where it is opened."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return False
    odbc = [text for name, given in parsed.query.items() if name.lower() == ODBC for text in ([given] if isinstance(given, str) else given)]
    within = [part.partition("=")[0].strip() for text in odbc for part in text.split(";")]
    return bool(parsed.password) or any(map(_is_secret, [*parsed.query, *within]))


def shown_url(url: URL) -> str:
    """Return a URL without its passwords: the one before the host, and those among its options, and ODBC's connection string."""
    secret = {name: HIDDEN for name in url.query if _is_secret(name) or name.lower() == ODBC}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _is_secret(option: str) -> bool:
    return any(word in option.lower() for word in SECRET_WORDS) or option.lower() in SECRET_NAMES
