"""Checks of a schema against versions that are not there."""

import pytest

from tests.unit.http.schema_registry.served import Served, tell

INT = {"schema": '"int"'}


@pytest.mark.parametrize("has_subject", [False, True])
def test_an_unknown_version_is_named_also_where_the_subject_is_unknown(has_subject: bool) -> None:
    """Confluent's registry does not look for the subject, and clients match the code."""

    async def story(served: Served) -> None:
        if has_subject:
            await served.ask("POST", "/subjects/a/versions", INT)
        refused = await served.ask("POST", "/compatibility/subjects/a/versions/7", INT)
        assert refused == (404, {"error_code": 40402, "message": "Version 7 not found."})

    tell(story)
