"""URLs of databases in SQLAlchemy's form: whether a password stands in one, and how it is shown without."""

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

HIDDEN = "hidden"


def has_password(url: str) -> bool:
    """Whether a password stands in a URL; what cannot be read as one is said to be wrong where it is opened."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return False
    return bool(parsed.password) or any(map(_is_secret, parsed.query))


def shown_url(url: URL) -> str:
    """Return a URL without its passwords: the one before the host, and those among its options."""
    secret = {name: HIDDEN for name in url.query if _is_secret(name)}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _is_secret(option: str) -> bool:
    return "password" in option.lower() or option.lower() in {"passwd", "pwd"}
