"""The free space that a broker keeps on a log directory's disk, for metadata, checkpoints and
indexes.

It refuses appends while less is free.
"""

from typing import Final

DISK_RESERVE_BYTES: Final = 64 << 20
