"""Computes CRC-32C, the checksum of record batches and producer snapshots, with a C extension.

The extension is that of the package ``crc32c``, which is not imported itself. The package has a
command line and reads its own version. For these two it imports argparse, email, zipfile and 36
more modules, which take a fifteenth of a node's start and 2 MB of its memory.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from log_service.common.types import Buffer


def _load() -> Callable[[Buffer], int]:
    """Return the function of the extension module.

    If a later version of the package has renamed its extension module, import the whole package.
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
