"""A browser's part of the console's pages, without a browser: cookies, tokens and forms."""

import html
import re
import shlex
from types import TracebackType
from typing import Any, Self

import httpx
from click.testing import CliRunner

from log_service.cli.main import tidelog

TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]{64})"')
LINE = re.compile(r"<copy-line><code>(.*?)</code>", re.DOTALL)
HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
ACTION = re.compile(r'<form class="fields" method="post" action="([^"]*)"')


class Person:
    """A person with a browser. Keeps the cookies, and the token of the last page."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=60, **settings)
        self.token = ""

    def __enter__(self) -> Self:
        self.client.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.__exit__(kind, error, trace)

    def open(self, path: str, status: int = 200, **query: Any) -> str:
        """Return the text of a page, and note its token."""
        response = self.client.get(path, params=query or None, follow_redirects=True)
        return self._noted(response, status)

    def part(self, path: str, **query: Any) -> str:
        """Return the part of a page that its script asks for, which waits for late figures."""
        headers = {"hx-request": "true"}
        response = self.client.get(path, params=query or None, headers=headers)
        assert response.status_code == 200, response.text
        assert "<html" not in response.text
        return response.text

    def send(self, path: str, status: int = 200, **form: Any) -> str:
        """Send a form, and return the text of the page that it leads to."""
        data = {"csrf_token": self.token, **{name: str(value) for name, value in form.items()}}
        headers = {"origin": self.url}
        response = self.client.post(path, data=data, headers=headers, follow_redirects=True)
        return self._noted(response, status)

    def confirm(self, preview: str, status: int = 200, **form: Any) -> str:
        """Press the button of a preview."""
        (action,) = ACTION.findall(preview)
        fields = {name: html.unescape(value) for name, value in HIDDEN.findall(preview)}
        fields.pop("csrf_token", None)
        return self.send(html.unescape(action), status, **{**fields, **form})

    def log_in(self, user: str, password: str, status: int = 200) -> str:
        """Log in, and return the page that follows."""
        self.open("/login")
        return self.send("/login", status, user=user, password=password, next="/topics")

    def _noted(self, response: httpx.Response, status: int) -> str:
        assert response.status_code == status, response.text
        found = TOKEN.search(response.text)
        self.token = found[1] if found else self.token
        return response.text


def command_lines(page: str) -> list[str]:
    """Return the command lines that a page shows."""
    return [html.unescape(line) for line in LINE.findall(page)]


def check_command(line: str) -> None:
    """Fail if there is no such command, or no such option of it."""
    program, *words = shlex.split(line)
    assert program == "tidelog"
    done = CliRunner().invoke(tidelog, [*words, "--help"])
    assert done.exit_code == 0, f"{line}: {done.output}"
    assert "Usage" in done.output


def readable(page: str) -> str:
    """Return the text of a page as a person reads it."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
