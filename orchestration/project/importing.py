"""Imports of many modules, without Python's search for garbage among what they make.

Nearly all that an import makes stays. Python looks through it again and again all the same, because it counts what is made: a fifth of the
time in which the platform is imported. Here it looks at nothing of that, neither meanwhile nor later, which leaves processes that are
forked afterwards their common memory, too. Decides nothing about what is imported; the programs say where.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_imports() -> Iterator[None]:
    """Look for no garbage meanwhile; what is there at the end is looked at again only when the process ends.

    It has to be then: DuckDB writes a page about leaks where what it made is still there after that.
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
