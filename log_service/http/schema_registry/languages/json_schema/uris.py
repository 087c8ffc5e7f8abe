"""Joins URIs by RFC 3986, whatever their scheme is.

Schemas are named by URIs of any scheme, such as ``urn:`` and ``mem:``, which the standard library
does not join. A text that is not a URI is joined, too, because no URI is ever fetched.
"""

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote

_PARTS = re.compile(
    r"""
    (?:(?P<scheme>[^:/?\#]+):)?
    (?://(?P<authority>[^/?\#]*))?
    (?P<path>[^?\#]*)
    (?:\?(?P<query>[^\#]*))?
    (?:\#(?P<fragment>.*))?
    """,
    re.DOTALL | re.VERBOSE,
)


def join(base: str, reference: str) -> str:
    """Return the URI that results from a reference relative to a base URI."""
    wanted, around = _split(reference), _split(base)
    if wanted.scheme is not None:
        return _text(replace(wanted, path=_without_dots(wanted.path)))
    if wanted.authority is not None:
        path = _without_dots(wanted.path)
        return _text(replace(wanted, scheme=around.scheme, path=path))
    if not wanted.path:
        query = around.query if wanted.query is None else wanted.query
        return _text(replace(around, query=query, fragment=wanted.fragment))
    path = _without_dots(_beside(around, wanted.path))
    return _text(replace(around, path=path, query=wanted.query, fragment=wanted.fragment))


def without_fragment(uri: str) -> str:
    """Return a URI without its fragment."""
    return uri.partition("#")[0]


def fragment_of(uri: str) -> str:
    """Return the percent-decoded fragment of a URI. It is empty if there is none."""
    return unquote(uri.partition("#")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uri:
    """The parts of a URI. None stands for a missing part."""

    scheme: str | None
    authority: str | None
    path: str
    query: str | None
    fragment: str | None


def _split(uri: str) -> _Uri:
    found = _PARTS.fullmatch(uri)
    assert found is not None, "the expression matches any text"
    return _Uri(**found.groupdict())


def _text(uri: _Uri) -> str:
    parts = (
        f"{uri.scheme}:" if uri.scheme is not None else "",
        f"//{uri.authority}" if uri.authority is not None else "",
        uri.path,
        f"?{uri.query}" if uri.query is not None else "",
        f"#{uri.fragment}" if uri.fragment is not None else "",
    )
    return "".join(parts)


def _beside(around: _Uri, path: str) -> str:
    """Return ``path`` resolved against the path of ``around``.

    A relative path replaces the last segment. An absolute path is returned as it is.
    """
    if path.startswith("/"):
        return path
    if around.authority is not None and not around.path:
        return f"/{path}"
    return around.path[: around.path.rfind("/") + 1] + path


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
