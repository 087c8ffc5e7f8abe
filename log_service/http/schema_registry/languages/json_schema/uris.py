"""URIs as RFC 3986 joins them, without a look at their scheme.

Schemas are named by URIs of any scheme, such as ``urn:`` and ``mem:``, which the standard library
does not join. A text that is no URI is joined all the same: nothing here is ever fetched.
"""

import re
from urllib.parse import unquote

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def join(base: str, reference: str) -> str:
    """Return what a reference stands for beside a base."""
    scheme, authority, path, query, fragment = _split(reference)
    if scheme is not None:
        return _unsplit(scheme, authority, _without_dots(path), query, fragment)
    base_scheme, base_authority, base_path, base_query, _ = _split(base)
    if authority is not None:
        return _unsplit(base_scheme, authority, _without_dots(path), query, fragment)
    if not path:
        return _unsplit(base_scheme, base_authority, base_path, base_query if query is None else query, fragment)
    if not path.startswith("/"):
        path = f"/{path}" if base_authority is not None and not base_path else base_path[: base_path.rfind("/") + 1] + path
    return _unsplit(base_scheme, base_authority, _without_dots(path), query, fragment)


def without_fragment(uri: str) -> str:
    """Return a URI up to its fragment."""
    return uri.partition("#")[0]


def fragment_of(uri: str) -> str:
    """Return the fragment of a URI, decoded. It is empty where there is none."""
    return unquote(uri.partition("#")[2])


def _split(uri: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    found = _PARTS.fullmatch(uri)
    assert found is not None, "the expression matches any text"
    scheme, authority, path, query, fragment = found.groups()
    return scheme, authority, path, query, fragment


def _unsplit(scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None) -> str:
    parts = (
        f"{scheme}:" if scheme is not None else "",
        f"//{authority}" if authority is not None else "",
        path,
        f"?{query}" if query is not None else "",
        f"#{fragment}" if fragment is not None else "",
    )
    return "".join(parts)


def _without_dots(path: str) -> str:
    """Return a path without the segments ``.`` and ``..``."""
    kept: list[str] = []
    segments = path.split("/")
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment == ".." and kept and kept[-1] not in {"", ".."}:
            kept.pop()
        elif segment not in {".", ".."} or (segment == ".." and not path.startswith("/")):
            kept.append(segment)
            continue
        if is_last:
            kept.append("")
    return "/".join(kept)
