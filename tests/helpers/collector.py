"""What a process of tests has set aside from Python's garbage collector for good: the tests themselves and the modules they imported.

The collector cannot tell cheaply whether anything is set aside: it counts the objects one by one, ten milliseconds for those of a worker.
"""

import gc


class _Process:
    is_set_aside = False


def set_aside() -> None:
    """Have no collection go through what there is now; what a simulated world brings is still collected."""
    gc.freeze()
    _Process.is_set_aside = True


def give_back() -> None:
    """Have collections go through everything again."""
    gc.unfreeze()
    _Process.is_set_aside = False


def is_set_aside() -> bool:
    """Whether something is kept from the collector for good."""
    return _Process.is_set_aside
