"""Keeps the tests and their imported modules from Python's garbage collector for good.

The collector cannot tell cheaply whether any object is set aside. It counts the objects one by one,
which takes ten milliseconds for those of a worker. So this module remembers it.
"""

import gc


class _Process:
    is_set_aside = False


def set_aside() -> None:
    """Keep all present objects from collections.

    Objects of a simulated world, which come later, are still collected.
    """
    gc.freeze()
    _Process.is_set_aside = True


def give_back() -> None:
    """Let collections go through all objects again."""
    gc.unfreeze()
    _Process.is_set_aside = False


def is_set_aside() -> bool:
    """Return whether objects are kept from the collector for good."""
    return _Process.is_set_aside
