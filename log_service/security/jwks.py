"""The public keys of a token issuer (JWKS, RFC 7517), fetched from a URL or a file and cached.

Keys are fetched at the start, at a fixed interval, and after a failure with a doubling pause. They
are also fetched at once when a token names an unknown key, but only once a minute for each key id.
A file is read again when it has changed. Fetching runs in a thread.

``config.oauth`` decides which URLs are allowed, and ``issuer_requests`` sends the requests.
Invariants: reads are bounded in size and time, and a failure keeps the current keys. The first
fetch must succeed.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import trio

from log_service.common.env import Clock
from log_service.common.urls import shown_url
from log_service.security.file_digests import FileDigest, file_digest
from log_service.security.issuer_requests import MAX_DOCUMENT_BYTES, IssuerTls, exchange
from log_service.security.sasl.oauthbearer import ValidToken
from log_service.security.sasl.web_tokens import (
    KeySet,
    UnknownKeyError,
    WebTokenRules,
    parse_key_set,
    validate_algorithms,
    validate_token,
)

SYSTEM_TLS: Final = IssuerTls()
FILE_CHECK_INTERVAL_S: Final = 5.0
MISSING_KEY_PAUSE_MS: Final = 60_000
MAX_MISSING_KEYS: Final = 16
MIN_PAUSE_MS: Final = 100
"""The least pause between fetches.

A configured 0 would otherwise query the issuer without a pause.
"""

logger = logging.getLogger(__name__)

Fetch = Callable[[str], bytes]
"""Returns the document at a URL. It blocks, and raises OSError."""
RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JwksConfig:
    """The URL of the keys, and how often they are fetched, in milliseconds."""

    url: str
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


class Jwks:
    """The keys of one issuer. Call ``refresh`` once before validating tokens, then ``run``."""

    def __init__(
        self,
        config: JwksConfig,
        rules: WebTokenRules,
        clock: Clock,
        *,
        fetch: Fetch,
        run_in_thread: RunInThread,
    ) -> None:
        self.keys: KeySet = ()
        self._config = config
        self._rules = rules
        self._clock = clock
        self._fetch = fetch
        self._run_in_thread = run_in_thread
        self._missing: OrderedDict[str, int] = OrderedDict()
        self._wanted = trio.Event()
        self._file = _path_of(config.url) if config.url.startswith("file:") else None
        self._read_as: FileDigest = None

    def __repr__(self) -> str:
        return f"<Jwks {shown_url(self._config.url)} keys={len(self.keys)}>"

    def validate(self, token: str) -> ValidToken:
        """Check a token with the current keys.

        If the token names an unknown key, the keys are fetched again, for later tokens.

        Raises:
            TokenRefusedError: the token is not to be trusted.
        """
        try:
            return validate_token(token, self.keys, self._rules, self._clock.wall_ms() / 1_000)
        except UnknownKeyError as error:
            self._miss(error.key_id)
            raise

    async def refresh(self) -> None:
        """Fetch the keys.

        Raises:
            OSError: the URL cannot be fetched.
            ValueError: the document is not a JWKS, or has no usable key for an allowed algorithm.
        """
        self._read_as, self.keys = await self._run_in_thread(self._read)

    def _read(self) -> tuple[FileDigest, KeySet]:
        """Return the keys and the digest of their file.

        The digest is taken before the file is read, so that a change in between is noticed.
        """
        digest = None if self._file is None else file_digest(self._file, _read_file)
        keys = parse_key_set(self._fetch(self._config.url))
        validate_algorithms(keys, self._rules.algorithms)
        return digest, keys

    async def run(self) -> None:
        """Keep the keys fresh until cancelled."""
        failed_count = 0
        while True:
            pause_ms = (
                self._config.refresh_ms if not failed_count else self._backoff_ms(failed_count)
            )
            with trio.move_on_after(max(pause_ms, MIN_PAUSE_MS) / 1_000):
                if failed_count:
                    await trio.sleep_forever()
                await self._wait_until_wanted()
            self._wanted = trio.Event()
            try:
                await self.refresh()
                failed_count = 0
            except (OSError, ValueError) as error:
                failed_count = min(failed_count + 1, 30)
                if failed_count == 1:
                    logger.warning(
                        "The keys at %s cannot be fetched, those of before stay: %s",
                        shown_url(self._config.url),
                        error,
                    )

    async def _wait_until_wanted(self) -> None:
        """Wait until a token names an unknown key, or the file has changed."""
        path = self._file
        if path is None:
            await self._wanted.wait()
            return
        while not self._wanted.is_set():
            with trio.move_on_after(FILE_CHECK_INTERVAL_S):
                await self._wanted.wait()
            if await self._run_in_thread(lambda: file_digest(path, _read_file)) != self._read_as:
                return

    def _backoff_ms(self, failed_count: int) -> int:
        return min(
            self._config.retry_backoff_ms << (failed_count - 1), self._config.retry_backoff_max_ms
        )

    def _miss(self, key_id: str) -> None:
        """Request an immediate fetch, unless this key id was requested within the last minute.

        Many made-up key ids cause no more fetches than ``MAX_MISSING_KEYS`` a minute.
        """
        now_ms = self._clock.monotonic_ms()
        looked_for_ms = self._missing.get(key_id)
        if looked_for_ms is not None and now_ms - looked_for_ms < MISSING_KEY_PAUSE_MS:
            return
        if len(self._missing) >= MAX_MISSING_KEYS:
            oldest_ms = next(iter(self._missing.values()))
            if now_ms - oldest_ms < MISSING_KEY_PAUSE_MS:
                return  # made-up ids must not flood the issuer
            self._missing.popitem(last=False)
        self._missing[key_id] = now_ms
        self._missing.move_to_end(key_id)
        self._wanted.set()


def fetch_document(url: str, tls: IssuerTls = SYSTEM_TLS) -> bytes:
    """Return the document at a URL.

    Blocks.

    Raises:
        OSError: the document cannot be read, is too large, or has moved.
    """
    if urlsplit(url).scheme == "file":
        content = _read_file(_path_of(url))
        if len(content) > MAX_DOCUMENT_BYTES:
            raise OSError(f"{url} has more than {MAX_DOCUMENT_BYTES} bytes")
        return content
    response = exchange(url, tls)
    if response.status != HTTPStatus.OK:
        raise OSError(f"{shown_url(url)} responded with status {response.status}")
    return response.body


def _path_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def _read_file(path: Path) -> bytes:
    """Return a file's content, up to one byte more than a document may have."""
    with path.open("rb") as file:
        return file.read(MAX_DOCUMENT_BYTES + 1)
