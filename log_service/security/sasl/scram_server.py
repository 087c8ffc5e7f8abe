"""The broker's side of SCRAM: decides on a client's two messages (RFC 5802, section 5).

Users are not known here. ``find`` returns a user's credential. ``decoy`` returns a credential that
no password matches, given the name and whether it is a token's. A client that sends
``tokenauth=true`` logs in by a delegation token (KIP-48), and the caller looks up the credential.

Invariants: an unknown name gets the same first message as a known one, and is refused at the last
message with the same reason. So is a user with a credential of the other mechanism only. A decoy is
made for every name, so that a known name takes as long as an unknown one. The channel binding of
the last message must equal that of the first. A credential that changed or was deleted in between
admits no login. Apache Kafka checks neither. No message is accepted twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from log_service.common.access import Principal
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism
from log_service.security.sasl.mechanisms import Accepted, Challenge, Lookup, Outcome, Refused
from log_service.security.sasl.scram import (
    MIN_ITERATIONS,
    TOKEN_AUTHENTICATION,
    ClientFirst,
    MalformedError,
    is_proof_of,
    parse_client_final,
    parse_client_first,
    server_signature,
    to_base64,
)

WRONG = "unknown user or wrong password"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWanted:
    """A request for the credential of a delegation token."""

    token_id: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """The parts of a delegation token that a login needs.

    ``expires_at_ms`` is wall time. ``is_there`` returns whether the cluster still has the token.
    """

    owner: Principal
    credential: ScramCredential
    expires_at_ms: int
    is_there: Callable[[], bool]


class _Stage(Enum):
    FIRST = "the first message"
    LOOKUP = "nothing, until a token was looked up"
    FINAL = "the last message"
    DONE = "nothing more"


class ScramServer:
    """One login. ``nonce`` is the broker's part of the nonce, fresh for each login."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        nonce: str,
        *,
        find: Callable[[str], ScramCredential | None],
        decoy: Callable[[str, bool], ScramCredential],
    ) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        self._find = find
        self._decoy = decoy
        self._stage = _Stage.FIRST
        self._is_by_token = False
        self._first: ClientFirst | None = None
        self._server_first = ""
        self._credential: ScramCredential | None = None
        self._shown: ScramCredential | None = None
        self._token: TokenLogin | None = None

    def __repr__(self) -> str:
        return f"<ScramServer {self._mechanism.mechanism_name} waits for {self._stage.value}>"

    def guessed_user(self, token: bytes) -> str | None:  # noqa: ARG002 - the first message has named the user
        """Return the user if the last message comes next, because the first tries no password."""
        return self._first.name if self._stage is _Stage.FINAL and self._first is not None else None

    def evaluate(self, token: bytes) -> Outcome:
        """Decide on the client's next message."""
        try:
            if self._stage is _Stage.FIRST:
                return self._take_first(parse_client_first(token))
            if self._stage is _Stage.FINAL:
                return self._take_final(token)
        except MalformedError as error:
            self._stage = _Stage.DONE
            return Refused(reason=f"a SCRAM message is malformed: {error}")
        return Refused(
            reason=f"a SCRAM message came where the broker waits for {self._stage.value}"
        )

    def _take_first(self, first: ClientFirst) -> Outcome:
        if first.authorization_id not in ("", first.name):
            self._stage = _Stage.DONE
            text = (
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            )
            return Refused(reason=text, client_text=text)
        self._first = first
        if first.extensions.get(TOKEN_AUTHENTICATION, "").lower() == "true":
            self._stage, self._is_by_token = _Stage.LOOKUP, True
            return Lookup(
                wanted=TokenWanted(token_id=first.name, mechanism=self._mechanism),
                resume=self._take_token,
            )
        return self._challenge(first, self._find(first.name))

    def _take_token(self, token: TokenLogin | None) -> Outcome:
        assert self._first is not None
        self._token = token
        return self._challenge(self._first, None if token is None else token.credential)

    def _challenge(self, first: ClientFirst, credential: ScramCredential | None) -> Outcome:
        """Return the challenge with the salt of the credential, or of a decoy."""
        is_usable = credential is not None and credential.iterations >= MIN_ITERATIONS
        self._credential = credential if is_usable else None
        # The decoy is made even if it is not used, so that known and unknown names take equal time.
        decoy = self._decoy(first.name, self._is_by_token)
        shown = self._shown = self._credential or decoy
        nonce = first.nonce + self._nonce
        self._server_first = f"r={nonce},s={to_base64(shown.salt.reveal())},i={shown.iterations}"
        self._stage = _Stage.FINAL
        return Challenge(token=self._server_first.encode())

    def _take_final(self, token: bytes) -> Outcome:
        self._stage = _Stage.DONE
        final, first = parse_client_final(token), self._first
        assert first is not None
        if final.nonce != first.nonce + self._nonce:
            return Refused(reason="the nonce of the last SCRAM message is not that of the first")
        if final.channel_binding != first.header.encode():
            return Refused(
                reason="the channel binding of the last SCRAM message is not that of the first"
            )
        auth_message = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        checked = self._shown
        assert checked is not None
        is_right = is_proof_of(self._mechanism, checked, auth_message, final.proof)
        is_held = (
            self._find(first.name) == self._credential
            if self._token is None
            else self._token.is_there()
        )
        if not is_right or not is_held or self._credential is None:
            return Refused(reason=WRONG)
        signature = server_signature(self._mechanism, checked.server_key.reveal(), auth_message)
        return self._accepted(first.name, f"v={to_base64(signature)}".encode())

    def _accepted(self, name: str, token: bytes) -> Accepted:
        login = self._token
        if login is None:
            return Accepted(principal=Principal("User", name), token=token)
        return Accepted(
            principal=login.owner, token=token, expires_at_ms=login.expires_at_ms, is_by_token=True
        )
