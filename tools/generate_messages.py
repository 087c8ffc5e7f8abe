"""Writes log_service/protocol/messages and log_service/protocol/stored.

    python -m tools.generate_messages            write the modules
    python -m tools.generate_messages --check    say which differ from what would be written, and fail if any does

APIs come from ``api_versions.SERVED``: a new row there is all that a new client-facing API needs. Everything else is listed below.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from log_service.protocol.api_versions import SERVED, ApiSpec
from tools.message_facts import load_message
from tools.message_modules import ModuleFacts, render_module

PROTOCOL = Path(__file__).parent.parent / "log_service" / "protocol"

OTHER_MESSAGES = {
    "messages/headers.py": ("Headers of requests and responses, as messages of their own.", ("RequestHeader", "ResponseHeader")),
    "messages/consumer_protocol.py": (
        "What classic consumers put inside JoinGroup and SyncGroup: subscription and assignment.",
        ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    ),
}


def modules() -> Iterator[tuple[Path, str]]:
    """Yield (path, source) of every generated module."""
    for spec in SERVED.values():
        yield PROTOCOL / "messages" / f"{spec.module}.py", render_module(_api_module(spec))
    for path, (title, names) in OTHER_MESSAGES.items():
        yield PROTOCOL / path, render_module(ModuleFacts(title=title, messages=tuple(load_message(name) for name in names)))


def _api_module(spec: ApiSpec) -> ModuleFacts:
    valid = str(spec.min_version) if spec.min_version == spec.max_version else f"{spec.min_version}-{spec.max_version}"
    title = f"{spec.name} (API key {spec.key.value}): request and response."
    return ModuleFacts(title=title, messages=(load_message(f"{spec.name}Request", valid), load_message(f"{spec.name}Response", valid)))


def main(arguments: list[str]) -> int:
    """Write or check; return the exit status."""
    differing = [(path, source) for path, source in modules() if not path.exists() or path.read_text() != source]
    if "--check" in arguments:
        for path, _ in differing:
            print(f"{path} is not what the generator writes; run python -m tools.generate_messages")
        return 1 if differing else 0
    for path, source in differing:
        path.write_text(source)
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
