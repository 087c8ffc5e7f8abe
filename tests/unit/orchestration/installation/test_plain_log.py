"""Logs of Dagster's processes are for reading: no colours, no stacks, each error once."""

import io
import logging
import sys
from collections.abc import Callable

import coloredlogs  # type: ignore[import-untyped]
import pytest

# What Dagster itself writes of an error.
from dagster._utils.error import (
    serializable_error_info_from_exc_info,
)
from dagster._utils.log import configure_loggers

from orchestration.installation.plain_log import PlainFormatter, write_plainly


def logged(write: Callable[[logging.Logger], object]) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter(datefmt="%H:%M"))
    logger = logging.getLogger("dagster.daemon")
    logger.addHandler(handler)
    try:
        write(logger)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


def ask() -> None:
    raise ConnectionError("the log service does not answer")


def fail() -> None:
    try:
        ask()
    except ConnectionError as error:
        raise RuntimeError("the sensor new_records failed") from error


def test_an_error_is_told_with_its_cause_and_without_a_stack() -> None:
    def write(logger: logging.Logger) -> None:
        try:
            fail()
        except RuntimeError:
            logger.exception("Sensor daemon caught an error")

    lines = logged(write).splitlines()
    assert lines[0].endswith("ERROR dagster.daemon: Sensor daemon caught an error")
    assert lines[1:] == [
        "ConnectionError: the log service does not answer",
        "RuntimeError: the sensor new_records failed",
    ]


def test_a_stack_inside_a_message_is_left_out() -> None:
    def write(logger: logging.Logger) -> None:
        try:
            fail()
        except RuntimeError:
            logger.error("%s", serializable_error_info_from_exc_info(sys.exc_info()).to_string())

    said = logged(write)
    assert "File " not in said
    assert "the log service does not answer" in said
    assert "the sensor new_records failed" in said


def test_dagster_s_loggers_write_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given back afterwards.
    monkeypatch.setattr(coloredlogs, "ColoredFormatter", coloredlogs.ColoredFormatter)
    logger = logging.getLogger("dagster")
    before = list(logger.handlers)
    try:
        write_plainly()
        configure_loggers(log_level="WARNING")
        logger.warning("something")
    finally:
        logger.handlers[:] = before
    assert capsys.readouterr().out.endswith("WARNING dagster: something\n")
