"""Cookies, origins, and paths to go to."""

import pytest

from log_service.http.console.browser_rules import (
    CONTENT_SECURITY_POLICY,
    cookie_name,
    cookie_of,
    require_own_origin,
    safe_path,
    set_cookie,
)
from log_service.http.server.values import HttpError


def test_a_cookie_is_found_among_others() -> None:
    headers = {"cookie": "a=1; tidelog_console_8080=abc; tidelog_console_80=no"}
    assert cookie_of(headers, cookie_name(8080, is_secure=False)) == "abc"
    assert cookie_of(headers, "missing") == ""
    assert cookie_of({}, "a") == ""


def test_a_cookie_is_for_this_console_alone() -> None:
    _, text = set_cookie(cookie_name(8080, is_secure=True), "abc", is_secure=True)
    assert text == "__Host-tidelog_console_8080=abc; Path=/; HttpOnly; SameSite=Strict; Secure"
    _, ended = set_cookie("a", "", is_secure=False)
    assert "Max-Age=0" in ended
    assert "Secure" not in ended


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://console:81",
        "file://console",
        "console",
        "://console",
    ],
)
def test_a_change_from_another_origin_is_refused(origin: str) -> None:
    with pytest.raises(HttpError, match="403"):
        require_own_origin({"host": "console", "origin": origin} if origin else {"host": "console"})


def test_a_change_from_the_own_origin_passes() -> None:
    require_own_origin({"host": "Console:8080", "origin": "http://console:8080"})
    require_own_origin({"host": "console.example", "origin": "https://console.example"})


@pytest.mark.parametrize(
    "path",
    ["", "//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/a\r\nb",
     "/\u202e", "/a\\b", "/" + "a" * 3_000],
)  # fmt: skip
def test_the_login_leads_to_no_other_site(path: str) -> None:
    assert safe_path(path) == "/"


def test_the_login_leads_back() -> None:
    assert safe_path("/topics/orders?page=2") == "/topics/orders?page=2"


def test_no_script_or_style_in_a_page_runs() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY
    assert "frame-ancestors 'none'" in CONTENT_SECURITY_POLICY
