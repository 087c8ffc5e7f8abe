"""Shows URLs without their secrets, and detects URLs whose requests are sent in clear text.

The user, the options and the fragment of a URL may hold secrets.
"""

from urllib.parse import urlsplit

from log_service.common.addresses import is_loopback


def shown_url(url: str) -> str:
    """Return a URL without its user, options and fragment, which may hold secrets.

    Text that is not a URL is not shown at all.
    """
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "a text that is not a URL"
    if not parts.scheme:
        return "a text that is not a URL"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def is_readable_by_others(url: str) -> bool:
    """Return whether requests to a URL cross a network in clear text."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return True
    host = parts.hostname or ""
    return parts.scheme != "https" and host != "localhost" and not is_loopback(host)


def host_port(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
