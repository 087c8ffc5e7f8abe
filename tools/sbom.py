"""Write a CycloneDX document, or a table of licences, of an installation's packages.

    python -m tools.sbom [--licences] [--extras platform,demo]

The packages are those that are installed here and that tidelog needs, directly or through others.
The same installation gives the same document: it has no time and no random number.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "tidelog"
UNKNOWN = "not told"
CLASSIFIER = "License :: "
LONGEST_NAME = 60
"""The most letters of a licence's name. Some packages give the whole licence text in its place."""
EXPRESSION = re.compile(
    r"[A-Za-z0-9.+-]+(?: (?:OR|AND|WITH)"
    r" [A-Za-z0-9.+-]+)+|[A-Za-z0-9.+]+-[A-Za-z0-9.+-]+|MIT|ISC|0BSD|Unlicense|Zlib"
)


@dataclass(slots=True, kw_only=True)
class Package:
    """An installed package. ``needs`` are the names of packages that it needs itself."""

    name: str
    version: str
    licence: str
    needs: set[str] = field(default_factory=set)

    @property
    def reference(self) -> str:
        """Return the package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def installed(extras: Sequence[str]) -> list[Package]:
    """Return tidelog, and then all installed packages that it needs with ``extras``, by name."""
    found: dict[str, Package] = {}
    seen, waiting = set[tuple[str, frozenset[str]]](), [(ROOT, frozenset(extras))]
    while waiting:
        name, asked = waiting.pop()
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        package = found.setdefault(
            name, Package(name=name, version=here.version, licence=licence_of(here))
        )
        for needed, its_extras in requirements(here, asked):
            package.needs.add(needed)
            waiting.append((needed, its_extras))
    for package in found.values():
        package.needs &= found.keys() - {package.name}
    return [found.pop(ROOT), *(found[name] for name in sorted(found))]


def requirements(
    here: Distribution, extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the packages that a distribution needs on this machine, with the extras it asks for."""
    for text in here.requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield canonicalize_name(needed.name), frozenset(needed.extras)


def licence_of(here: Distribution) -> str:
    """Return the licence that a distribution names, as an SPDX expression where it gives one."""
    told = here.metadata
    for field_name in ("License-Expression", "License"):
        text = str(told[field_name]) if field_name in told else ""
        if text and len(text) <= LONGEST_NAME and "\n" not in text.strip():
            return text.strip()
    names = [
        each.rpartition(" :: ")[2]
        for each in told.get_all("Classifier") or []
        if each.startswith(CLASSIFIER)
    ]
    return " and ".join(names) or UNKNOWN


def document(packages: Sequence[Package]) -> dict[str, Any]:
    """Return the CycloneDX 1.6 document of packages. The first needs the others."""
    root, *others = packages
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(root, "application")},
        "components": [_component(package, "library") for package in others],
        "dependencies": [
            {
                "ref": package.reference,
                "dependsOn": sorted(
                    each.reference for each in others if each.name in package.needs
                ),
            }
            for package in packages
        ],
    }


def _component(package: Package, kind: str) -> dict[str, Any]:
    component = {
        "type": kind,
        "bom-ref": package.reference,
        "name": package.name,
        "version": package.version,
        "purl": package.reference,
    }
    if package.licence == UNKNOWN:
        return component
    is_expression = EXPRESSION.fullmatch(package.licence) is not None
    licence = (
        {"expression": package.licence} if is_expression else {"license": {"name": package.licence}}
    )
    return {**component, "licenses": [licence]}


def table(packages: Sequence[Package]) -> str:
    """Return packages with their licences as a Markdown table, and the number of each licence."""
    rows = [
        f"| {package.name} | {package.version} | {package.licence} |" for package in packages[1:]
    ]
    counts = Counter(package.licence for package in packages[1:])
    totals = [
        f"| {licence} | {count} |"
        for licence, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]
    return "\n".join(
        [
            "| package | version | licence |",
            "|---|---|---|",
            *rows,
            "",
            "| licence | packages |",
            "|---|---|",
            *totals,
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Print the document, or the table."""
    parser = argparse.ArgumentParser(
        description="Print the packages of this installation as a CycloneDX document."
    )
    parser.add_argument("--licences", action="store_true", help="print a table of licences instead")
    parser.add_argument(
        "--extras",
        default="platform,demo",
        help="extras of tidelog, separated by commas; empty for none",
    )
    asked = parser.parse_args(arguments)
    packages = installed([each for each in asked.extras.split(",") if each])
    print(table(packages) if asked.licences else json.dumps(document(packages), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
