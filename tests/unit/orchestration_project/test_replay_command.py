"""``tidelog replay``: what it refuses before it looks at the project."""

import pytest
from click.testing import CliRunner

from orchestration.cli.replay import replay


@pytest.mark.parametrize("more", [["--offsets", "0:0-1"], ["--dead-letters"], ["--from", "2026-01-01"], ["--to", "2026-01-01"]], ids=str)
def test_everything_takes_no_choice_beside_it(more: list[str]) -> None:
    outcome = CliRunner().invoke(replay, ["orders", "--everything", *more])
    assert outcome.exit_code == 2
    assert "--everything leaves nothing to choose" in outcome.output


def test_a_time_that_ends_before_it_begins_is_refused() -> None:
    outcome = CliRunner().invoke(replay, ["orders", "--from", "2026-02-01", "--to", "2026-01-01"])
    assert outcome.exit_code == 2
    assert "--from is not before --to" in outcome.output
