"""The room that a broker keeps free on the disk of a log directory, for metadata, checkpoints and indexes.

It refuses appends while less is free.
"""

from typing import Final

DISK_RESERVE_BYTES: Final = 64 << 20
