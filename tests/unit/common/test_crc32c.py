"""The checksum is the package's, and a process that needs it does not import the whole package."""

import subprocess
import sys

from log_service.common.crc32c import crc32c


def test_is_the_castagnoli_checksum() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(32))) == 0x8A9136AA


def test_imports_neither_the_package_nor_what_its_command_line_needs() -> None:
    program = "import sys, log_service.records.batch; print(*sorted({'argparse', 'crc32c', 'email', 'zipfile'} & sys.modules.keys()))"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == []
