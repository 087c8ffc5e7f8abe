"""A console is small: it imports the libraries of schemas with the first value that needs one."""

import subprocess
import sys

HEAVY = ("fastavro", "google.protobuf", "jsonschema", "numpy")


def test_the_pages_import_no_library_of_schemas() -> None:
    program = (
        "import sys\nfrom log_service.http.console import service\nservice.own_areas()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
