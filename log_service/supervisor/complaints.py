"""Reads a component's complaints: problems that it reports about itself in a file, one per line.

A line may end with a part that changes while the problem lasts, such as the time of the next try.
The separator ``MOMENTARY`` comes before it. ``tidelog status`` shows that part. The terminal does
not, because it prints a complaint once.
"""

from collections.abc import Sequence

from log_service.supervisor.spec import Component

MOMENTARY = "\t"
MAX_COMPLAINT_CHARACTERS = 2_000
MAX_COMPLAINTS = 50


def complaints_of(component: Component) -> tuple[str, ...]:
    """Return the problems in a component's complaint file, one per item.

    There are none if the file cannot be read.
    """
    if component.complaint_path is None:
        return ()
    try:
        text = component.complaint_path.read_text(errors="replace")
    except OSError:
        return ()
    lines = (
        _trimmed(line)[:MAX_COMPLAINT_CHARACTERS] for line in text.splitlines()[:MAX_COMPLAINTS]
    )
    return tuple(dict.fromkeys(line for line in lines if line))


def _trimmed(line: str) -> str:
    lasting, _, momentary = (" ".join(part.split()) for part in line.partition(MOMENTARY))
    return MOMENTARY.join(part for part in (lasting, momentary) if part)


def lasting(complaint: str) -> str:
    """Return the part of a complaint that does not change while the problem lasts."""
    return complaint.partition(MOMENTARY)[0]


def joined(complaints: Sequence[str]) -> str:
    """Join complaints to one text for the state file, one per line."""
    return "\n".join("; ".join(filter(None, one.split(MOMENTARY))) for one in complaints)
