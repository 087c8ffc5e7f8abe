"""Counts reference cycles that the product leaves to Python's garbage collector.

def test_something() -> None:
    with counted_garbage() as left:
        act()
    assert not left
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_garbage(modules: str = "log_service.") -> Iterator[Counter[str]]:
    """Count the garbage of a block by class.

    The counts are there once the block is over. ``modules`` is the beginning of the names of the
    classes' modules. It is empty to count all classes.
    """
    left: Counter[str] = Counter()
    is_collecting, flags = gc.isenabled(), gc.get_debug()
    gc.collect()
    gc.disable()
    try:
        yield left
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left.update(
            type(each).__qualname__
            for each in gc.garbage
            if type(each).__module__.startswith(modules)
        )
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        if is_collecting:
            gc.enable()
