"""Reads a component's complaints about itself, from a file with a line for each.

A line may end with a part behind ``MOMENTARY``, such as the time of the next try. ``tidelog
status`` shows that part. The terminal does not, because it prints a complaint once.
"""

from collections.abc import Sequence

from log_service.supervisor.spec import Component

MOMENTARY = "\t"
MAX_COMPLAINT_CHARACTERS = 2_000
MAX_COMPLAINTS = 50


def complaints_of(component: Component) -> tuple[str, ...]:
    """Return a component's complaints about itself, a line each."""
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
    """Return the part of a complaint that stays the same for as long as it holds."""
    return complaint.partition(MOMENTARY)[0]


def joined(complaints: Sequence[str]) -> str:
    """Return complaints as one text, for the state: a line each."""
    return "\n".join("; ".join(filter(None, one.split(MOMENTARY))) for one in complaints)
