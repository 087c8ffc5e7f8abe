"""The facts on dead letters, as ``tidelog dead-letters list`` and ``show`` find them."""

from collections import Counter
from typing import Any

from orchestration.cli.dead_letters import chosen_rule, opened_letters, text_of, told
from orchestration.cli.table_names import refuse_unknown
from orchestration.console.process.project import Method, assets_now, current_settings
from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.places import Place, letter_at, names_of_topics, place_of
from orchestration.offsets.byte_limits import is_cut_short
from orchestration.transforms.kinds import is_replayed_whole, why_no_replay

LISTED = 200
LISTED_REASONS = 500
PREVIEW_CHARACTERS = 300
MAX_VALUE_CHARACTERS = 100_000


def letter_summary() -> dict[str, Any]:
    """Return the most frequent reasons with their counts, and all counts by table and rule."""
    with opened_letters() as (letters, _):
        rows = letters.summary()
    rules: dict[str, Counter[str]] = {}
    for row in rows:
        rules.setdefault(str(row["target"]), Counter())[str(row["rule"])] += int(row["count"])
    shown = [{**row, "reason": _start(str(row["reason"]))} for row in rows[:LISTED_REASONS]]
    return {"rows": shown, "rules": rules, "is_cut": len(rows) > LISTED_REASONS}


def letter_list(*, table: str, rule: str | None) -> list[dict[str, Any]]:
    """Return the first dead letters of a table, with the beginnings of their values.

    :raises ClickException: there is no such table.
    """
    with opened_letters() as (letters, _):
        refuse_unknown(table, letters)
        names = names_of_topics(letters, table)
        rows = letters.of_target(table, chosen_rule(rule), limit=LISTED)
        return [
            {
                **told(row, names),
                "headers": [],
                "reason": _start(row["reason"]),
                "key": _start(text_of(row["key"])),
                "value": _start(text_of(row["value"])),
            }
            for row in rows
        ]


def letter(*, table: str, place: str) -> dict[str, Any]:
    """Return one dead letter with its fix, and whether and how it can be replayed.

    Very long texts are cut.

    :raises ClickException: there is no such letter.
    """
    current_settings()
    assets_now()
    with opened_letters() as (letters, _):
        refuse_unknown(table, letters)
        row = letter_at(letters, table, Place.parse(place))
        names = names_of_topics(letters, table)
        at = row["_partition"], row["_offset"]
        fixes = Fixes(letters.lake).of(table, row["_topic_id"])
    shown = told(row, names)
    value = shown["value"]
    is_text = row["value"] is None or _is_text(row["value"])
    is_whole = value is None or len(value) <= MAX_VALUE_CHARACTERS
    return {
        **shown,
        "headers": [
            {"key": each["key"], "value": _start(each["value"])} for each in shown["headers"][:100]
        ],
        "key": _start(shown["key"]),
        "value": None if value is None else value[:MAX_VALUE_CHARACTERS],
        "place": str(place_of(row, names)),
        "topic_id": row["_topic_id"],
        "partition": at[0],
        "offset": at[1],
        "is_editable": is_text and is_whole and not is_cut_short(row["reason"]),
        "is_fixed": at in fixes,
        "fix": _start(text_of(fixes.get(at))),
        "why_no_replay": why_no_replay(table, is_everything=True, is_of_dead_letters=True) or "",
        "is_replayed_whole": is_replayed_whole(table),
    }


def _start(text: str | None) -> str | None:
    if text is None or len(text) <= PREVIEW_CHARACTERS:
        return text
    return f"{text[:PREVIEW_CHARACTERS]}…"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


METHODS: dict[str, Method] = {
    "letter_summary": letter_summary,
    "letter_list": letter_list,
    "letter": letter,
}
