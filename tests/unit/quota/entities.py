"""Quotas are written as tests read them: ("user=alice client-id=", key, value).

An empty name is the default.
"""

from log_service.metadata.access import QuotaEntity, QuotaPart


def entity(text: str) -> QuotaEntity:
    named = (part.partition("=") for part in text.split(" "))
    return tuple(sorted(QuotaPart(kind, name, is_default=not name) for kind, _, name in named))


def quotas(*rows: tuple[str, str, float]) -> dict[QuotaEntity, dict[str, float]]:
    found: dict[QuotaEntity, dict[str, float]] = {}
    for text, key, value in rows:
        found.setdefault(entity(text), {})[key] = value
    return found
