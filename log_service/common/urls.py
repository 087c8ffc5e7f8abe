"""URLs as they are shown: to people, in logs and in errors."""

from urllib.parse import urlsplit


def shown_url(url: str) -> str:
    """Return a URL without its user, options and fragment, which may hold secrets.

    Text that is no URL is not shown at all.
    """
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "a text that is no URL"
    if not parts.scheme:
        return "a text that is no URL"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def host_port(host: str, port: int) -> str:
    """Return ``host:port``; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
