"""Paths of pages, and command lines that do what a page does.

Names of a cluster may hold any character. In a path and in a query they are percent-encoded, and in
a command line they are quoted for a shell.
"""

import shlex
from urllib.parse import quote, urlencode

PROGRAM = "tidelog"


def path_to(*parts: str, **query: object) -> str:
    """Return the path of a page. Parts and values are encoded. A value of None is left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name.rstrip("_"): value for name, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given)}" if given else path


def command(*words: object) -> str:
    """Return a command line of ``tidelog``, quoted for a shell."""
    return shlex.join([PROGRAM, *(str(word) for word in words)])
