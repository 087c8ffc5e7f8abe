"""Templates of pages, rendered with every value escaped.

Values of a cluster are text, never markup: jinja2 escapes each value, and no template turns that
off. Templates are compiled once, when the console starts. An undefined name is an error.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, PrefixLoader, StrictUndefined

from log_service.common.counts import counted
from log_service.common.urls import shown_url
from log_service.http.console.addresses import path_to

HERE = Path(__file__).parent
UNKNOWN = "\N{EN DASH}"
"""Stands for a value that is not known, or not there."""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Pages:
    """The templates of all areas. ``folders`` has the template folder of each area, by name."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        loaders = {"console": FileSystemLoader(HERE / "templates")}
        loaders |= {name: FileSystemLoader(folder) for name, folder in folders.items()}
        self._environment = Environment(
            autoescape=True,
            undefined=StrictUndefined,
            loader=PrefixLoader(loaders),
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "sized": sized,
            "time": shown_time,
            "number": shown_number,
            "counted": counted,
            "without_secrets": shown_url,
        }
        self._environment.globals |= {"path_to": path_to, "asset": asset_path()}

    def __repr__(self) -> str:
        return f"<Pages templates={len(self._environment.list_templates())}>"

    def compile_all(self) -> None:
        """Compile all templates, so that no request has to wait for it. Blocks."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def render(self, template: str, values: Mapping[str, Any]) -> bytes:
        """Render a template of a page, or of a part of a page."""
        return self._environment.get_template(template).render(values).encode("utf-8", "replace")


def sized(size_bytes: int | None) -> str:
    """Format a number of bytes for people, a dash if it is not known."""
    if size_bytes is None or size_bytes < 0:
        return UNKNOWN
    value, unit = float(size_bytes), UNITS[0]
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def shown_time(timestamp_ms: int | None) -> str:
    """Format a time in UTC, a dash if there is none."""
    if timestamp_ms is None or timestamp_ms < 0:
        return UNKNOWN
    try:
        time = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return f"{time:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1_000:03d}"


def shown_number(number: int | None) -> str:
    """Format a number with its thousands separated, a dash if it is not known."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def asset_path() -> Any:
    """Return a function that maps the name of a static file to its URL path.

    The path has a hash of the content, so that a browser may keep the file.
    """
    marks = {path.name: mark_of(path) for path in (HERE / "static").iterdir() if path.is_file()}

    def path_of(name: str) -> str:
        return f"/static/{marks[name]}/{name}"

    return path_of


def mark_of(path: Path) -> str:
    """Return a short hash of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
