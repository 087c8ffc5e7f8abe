"""Decides whether a database's URL may contain a secret, and shows the URL without it.

URLs have SQLAlchemy's form. Drivers have hundreds of options, and some hold secrets under names
that do not say so (``credentials_base64``, ``api_key``). So only the values of options that are
known to be harmless are shown, and all others count as secrets.
"""

from collections.abc import Iterator

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

HIDDEN = "hidden"
ODBC = "odbc_connect"
"""The option that holds a whole connection string of ODBC, as ``NAME=value`` between semicolons."""
_ANY_DRIVER = (
    "application_name appname autocommit charset client_encoding connect_timeout dsn encoding"
    " fallback_application_name login_timeout timeout"
)
_WHERE = (
    "account catalog cluster_identifier database dataset_id dbname host hostaddr http_path location"
    " port region role schema server service service_name servicename sid user user_id warehouse"
)
_FILES = (
    "credentials_path passfile servicefile ssl_ca ssl_capath ssl_cert ssl_key sslcert sslcrl sslkey"
    " sslrootcert unix_socket"
)
_TLS = (
    "channel_binding encrypt gssencmode krbsrvname ssl ssl_check_hostname ssl_cipher ssl_disabled"
    " ssl_max_protocol_version ssl_min_protocol_version ssl_mode ssl_verify_cert"
    " ssl_verify_identity sslcompression sslmode sslnegotiation sslsni trustservercertificate"
)
_SQLITE = (
    "cache check_same_thread detect_types immutable isolation_level mode nolock read_only uri vfs"
)
_SERVERS = (
    "address applicationintent arraysize authentication authenticator collation compress driver"
    " events fast_executemany keepalives keepalives_count keepalives_idle keepalives_interval"
    " load_balance_hosts longasmax mars_connection multisubnetfailover nencoding network"
    " prepare_threshold purity read_timeout require_auth target_session_attrs tcp_user_timeout"
    " tds_version threaded trusted_connection uid use_unicode write_timeout"
)
HARMLESS = frozenset(f"{_ANY_DRIVER} {_WHERE} {_FILES} {_TLS} {_SQLITE} {_SERVERS}".split())
"""Options, in small letters, about the place of a database and the way to talk to it."""


def may_hold_secret(url: str) -> str | None:
    """Return the part of a URL that is a secret or may be one, in words, or None if there is none.

    A text that is not a URL gets None, because opening it reports the mistake.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return None
    if parsed.password:
        return "a password"
    unknown = next((name for name in _options(parsed) if not is_harmless(name)), None)
    return None if unknown is None else f"the option {unknown}, which may be a secret"


def shown_url(url: URL) -> str:
    """Return a URL without its password, and without the values of options that may be secrets."""
    return url.update_query_dict(
        {name: HIDDEN for name in url.query if not is_harmless(name)}
    ).render_as_string(hide_password=True)


def is_harmless(option: str) -> bool:
    """Whether the value of an option is known not to be secret."""
    return option.lower() in HARMLESS


def _options(url: URL) -> Iterator[str]:
    """Yield the names of a URL's options.

    The option with ODBC's connection string is replaced by the options in that string.
    """
    for name, given in url.query.items():
        if name.lower() != ODBC:
            yield name
            continue
        for text in [given] if isinstance(given, str) else given:
            yield from (part.partition("=")[0].strip() for part in text.split(";") if part.strip())
