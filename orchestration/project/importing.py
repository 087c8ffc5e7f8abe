"""Imports many modules without Python's garbage collection of the new objects.

Nearly all objects of an import stay alive. Python's collector visits them again and again all the
same, because it counts new objects. That takes a fifth of the platform's import time. Here
collection is off during the import, and never visits these objects later. Processes that are forked
afterwards thus keep sharing their memory, too. Also names the packages that a project needs.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEEDED = ("dagster", "deltalake", "duckdb", "pyspark")
"""Packages of the platform's extra, without which no project can be imported."""


@contextmanager
def kept_imports() -> Iterator[None]:
    """Collect no garbage in the block, and exempt its objects from collection until exit.

    At exit they are collected. Otherwise DuckDB would write a page about leaked objects.
    """
    is_looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.unregister(gc.unfreeze)
        atexit.register(gc.unfreeze)
        if is_looking:
            gc.enable()
