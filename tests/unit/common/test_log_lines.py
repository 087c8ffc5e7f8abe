"""An event of a log is one line, whatever a client has put into it."""

import io
import logging

from log_service.common.log_lines import LineFormatter


def written(*args: object, error: BaseException | None = None) -> str:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(LineFormatter("%(levelname)s %(name)s: %(message)s"))
    text, *values = args
    info = None if error is None else (type(error), error, None)
    handler.handle(
        logging.LogRecord("node", logging.WARNING, "", 0, str(text), tuple(values), info)
    )
    return str(handler.stream.getvalue())


def test_a_name_begins_no_line_and_moves_no_cursor() -> None:
    name = "CN=x\nINFO node: all is well\r\x1b[2J\u2028\x00\ud800"
    line = written("no rule matches %s", name)
    assert (
        line
        == "WARNING node: no rule matches CN=x\\nINFO node: all is well\\r\\x1b[2J\\u2028\\x00\\ud800\n"
    )


def test_other_letters_stay_as_they_are() -> None:
    assert written("über %s", "日本") == "WARNING node: über 日本\n"


def test_a_traceback_keeps_its_lines() -> None:
    assert written("it failed", error=ValueError("why")).splitlines() == [
        "WARNING node: it failed",
        "ValueError: why",
    ]
