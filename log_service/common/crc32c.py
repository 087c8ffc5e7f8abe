"""Computes CRC-32C, the checksum of record batches and producer snapshots. The package ``crc32c``
does it in C.

Loads the extension module of that package and not the package. The package serves a command line
and knows its own version: for these two it imports argparse, email, zipfile and 36 more modules,
which are a fifteenth of a node's start and 2 MB of its memory.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from log_service.common.types import Buffer


def _load() -> Callable[[Buffer], int]:
    """Return the package's function.

    Import it through the package if its extension module has another name than today.
    """
    package = find_spec("crc32c")
    spec = (
        None
        if package is None
        else PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    )
    if spec is None or spec.loader is None:
        import crc32c as whole  # noqa: PLC0415 - what is avoided where it can be

        return whole.crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.crc32c  # type: ignore[no-any-return]


crc32c = _load()
