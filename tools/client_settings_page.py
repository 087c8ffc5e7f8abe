"""Writes ``docs/reference/client-settings.md`` from the declared settings of the client.

``python -m tools.client_settings_page`` runs it. Decides the page's shape. The text about a setting
is the reason that stands beside its default. A test checks that the page is up to date.
"""

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from log_service.config.client import (
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "client-settings.md"
HEAD = """# Settings of clients

Written by `python -m tools.client_settings_page`. Keywords of `Producer`, `Consumer`, `ShareConsumer` and `Admin`, and of their blocking
classes: `Producer("127.0.0.1:9092", linger_ms=20)`. The names are Kafka's, with underscores, and most
defaults are, too. A name or a value that cannot be used is refused at once, with a sentence.
"""
SECTIONS = (
    ("Every client", ClientConfig, ()),
    ("Producer", ProducerConfig, fields(ClientConfig)),
    ("Consumer", ConsumerConfig, fields(ClientConfig)),
    ("ShareConsumer", ShareConsumerConfig, fields(ClientConfig)),
)
UNLIMITED = {2**31 - 1, 2**63 - 1}


def page() -> str:
    """Return the page's text."""
    parts = [HEAD]
    for title, declared, shared in SECTIONS:
        left_out = {one.name for one in shared}
        parts += [
            f"## {title}\n",
            *_table(one for one in fields(declared) if one.name not in left_out),
            "",
        ]
    return "\n".join(parts)


def _table(settings: Iterable[Field[Any]]) -> Iterable[str]:
    yield "| setting | default | values | why |\n|---|---|---|---|"
    for one in settings:
        yield f"| `{one.name}` | {_default(one)} | {_values(one)} | {one.metadata['reason']} |"


def _default(setting: Field[Any]) -> str:
    return "required" if setting.default is MISSING else f"`{setting.default!r}`"


def _values(setting: Field[Any]) -> str:
    if "choices" in setting.metadata:
        return ", ".join(f"`{choice}`" for choice in setting.metadata["choices"])
    least, most = setting.metadata.get("bounds", (0, 2**31 - 1))
    return " ".join([f"from {least:,}"] * (least > 0) + [f"to {most:,}"] * (most not in UNLIMITED))


if __name__ == "__main__":
    PAGE.write_text(page())
