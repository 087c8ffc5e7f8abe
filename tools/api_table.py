"""Writes the table of APIs in ``docs/compatibility.md`` from the registry.

``python -m tools.api_table`` runs it. Decides the table's shape. Everything in it is a row of the
registry. A test checks that the page is up to date.
"""

from collections.abc import Iterator
from pathlib import Path

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Api, QuotaKind, Side

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"
BEGIN = "<!-- The table is written by `python -m tools.api_table`. -->\n"
END = "<!-- The end of the table. -->\n"


def table() -> str:
    """Return the table's text."""
    return "\n".join(
        [
            "",
            "| key | API | versions | listeners | permissions | quota |",
            "|---|---|---|---|---|---|",
            *_rows(),
            "",
            "",
        ]
    )


def with_table(text: str) -> str:
    """Return the page with the table between its two markers."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def _rows() -> Iterator[str]:
    for api in REGISTRY.values():
        cells = (
            int(api.key),
            api.spec.name,
            _versions(api),
            _listeners(api),
            _permissions(api),
            _quota(api),
        )
        yield f"| {' | '.join(map(str, cells))} |"


def _versions(api: Api) -> str:
    spec = api.spec
    text = f"{spec.min_version}-{spec.max_version}"
    if spec.advertised_min_version is None:
        return f"{text}, not advertised"
    return (
        text
        if spec.advertised_min_version == spec.min_version
        else f"{text}, advertised from {spec.advertised_min_version}"
    )


def _listeners(api: Api) -> str:
    return " and ".join(side.value for side in Side if side in api.sides)


def _permissions(api: Api) -> str:
    return ", ".join(map(str, api.permissions)) or "none"


def _quota(api: Api) -> str:
    return "" if api.quota is QuotaKind.NONE else api.quota.value


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
