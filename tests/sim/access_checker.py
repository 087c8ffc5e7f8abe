"""Judges attempts and logins of users by the knowledge of the nodes that decided.

A node's knowledge counts from the moment of the request to that of the response.

A node may have known several states of the ACLs in that time, and the response may be by any of
them:

* what no state allows is refused, with Kafka's code, and never takes effect;
* what every state allows is not refused;
* names are shown that some state lets the user see, and all that each state does;
* the operations that a response calls authorized are those of some state;
* a login succeeds where every state has its password, or a token that has not expired, and fails
  where none has;
* what is asked after the login of a connection has ended gets no response, and has no effect
  (KIP-368).

Decides nothing of when a node has to know a change: that a change reaches every node is judged once
all is calm (``check_known``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from log_service.common.access import AclOperation
from log_service.common.errors import ErrorCode
from tests.sim.access_history import Attempt, Bits, LogIn, Part, Shown
from tests.sim.access_model import AccessState, Asker, Need, Rule
from tests.sim.node_checker import Violation

REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
UNDECIDED = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
"""What may be told before anything is decided: the node does not know the ACLs yet, or reaches no
controller.
"""
EFFECT, REFUSED, CODE = (
    "no effect without a permission",
    "what is allowed is not refused",
    "refused with Kafka's code",
)
HIDDEN, SHOWN, BITS = "hidden names", "names that may be seen", "authorized operations"
LOGIN, ENDED, KNOWN = "logins", "logins that have ended", "acknowledged changes of access"


def check_attempt(attempt: Attempt, states: Sequence[AccessState]) -> Iterator[Violation]:
    """Judge what an attempt was told."""
    if attempt.is_ok and attempt.time > attempt.login_ends:
        yield Violation(
            ENDED,
            f"{attempt}: got a response {attempt.time - attempt.login_ends:.3f} s after its login had ended",
        )
    for part in attempt.parts:
        if part.told is not None:
            yield from _check_told(attempt, part, states)
    for shown in attempt.shown:
        yield from _check_shown(attempt, shown, states)
    for bits in attempt.bits:
        legal = {_bits(state, attempt.asker, bits) for state in states}
        if bits.told not in legal:
            text = f"{attempt}: {bits.resource.name} {bits.name} has {_listed(bits.told)}; expected {' or '.join(map(_listed, sorted(legal)))}"
            yield Violation(BITS, text)


def verdicts(attempt: Attempt, part: Part, states: Iterable[AccessState]) -> set[ErrorCode]:
    """Return what the states say of a part."""
    return {state.verdict(attempt.asker, part.steps) for state in states}


def _check_told(attempt: Attempt, part: Part, states: Sequence[AccessState]) -> Iterator[Violation]:
    legal, told = verdicts(attempt, part, states), part.told
    assert told is not None
    own = {step.refusal for step in part.steps}
    if told in legal or told in UNDECIDED:
        return
    if told not in REFUSALS | own:
        if ErrorCode.NONE not in legal:
            yield Violation(
                EFFECT if told is ErrorCode.NONE else CODE,
                f"{attempt}: {part.what} got {told.name}, not {_names(legal)}",
            )
    elif legal == {ErrorCode.NONE}:
        yield Violation(REFUSED, f"{attempt}: {part.what} got {told.name}")
    else:
        yield Violation(CODE, f"{attempt}: {part.what} got {told.name}, not {_names(legal)}")


def _check_shown(
    attempt: Attempt, shown: Shown, states: Sequence[AccessState]
) -> Iterator[Violation]:
    for name in shown.names:
        if all(state.verdict(attempt.asker, [shown.step(name)]) for state in states):
            yield Violation(HIDDEN, f"{attempt}: {shown.resource.name} {name} is shown")
    for name in shown.known:
        if name not in shown.names and not any(
            state.verdict(attempt.asker, [shown.step(name)]) for state in states
        ):
            yield Violation(SHOWN, f"{attempt}: {shown.resource.name} {name} is not shown")


def _bits(state: AccessState, asker: Asker, bits: Bits) -> int:
    if bits.is_hidden_without_describe and not state.allows(
        asker, Need(AclOperation.DESCRIBE, bits.resource, bits.name)
    ):
        return 0
    return state.bits(asker, bits.resource, bits.name, bits.operations)


def check_effects(
    attempt: Attempt, states: Sequence[AccessState], left: Collection[str]
) -> Iterator[Violation]:
    """Judge what is left of an attempt at the end; ``left`` has the marks that were found."""
    for part in attempt.parts:
        if part.mark in left and attempt.time > attempt.login_ends:
            yield Violation(
                ENDED, f"{attempt}: {part.what} took effect after its login had ended: {part.mark}"
            )
        if part.mark in left and ErrorCode.NONE not in verdicts(attempt, part, states):
            yield Violation(EFFECT, f"{attempt}: {part.what} took effect: {part.mark}")


def check_login(login: LogIn, states: Sequence[AccessState]) -> Iterator[Violation]:
    """Judge a login."""
    if login.told is None:
        return
    if login.token:
        ends = [state.tokens.get(login.token, 0) for state in states]
        are_right = {
            moment_ms < end for end in ends for moment_ms in (login.wall_ms, login.ended_wall_ms)
        }
    else:
        are_right = {state.passwords.get(login.user) == login.password for state in states}
    if login.told is ErrorCode.NONE and True not in are_right:
        yield Violation(LOGIN, f"{login} succeeded")
    if login.told is not ErrorCode.NONE and False not in are_right:
        yield Violation(LOGIN, f"{login} was refused: {login.told.name}")
    if login.told not in (ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED):
        yield Violation(LOGIN, f"{login} got {login.told.name}")


def check_known(
    node: str, state: AccessState, rules: Mapping[Rule, bool], passwords: Mapping[str, int | None]
) -> Iterator[Violation]:
    """Judge a node's knowledge once all is calm.

    Acknowledged entries are there, and removed ones are not.
    """
    known = set(state.rules)
    for rule, is_there in rules.items():
        if (rule in known) is not is_there:
            yield Violation(
                KNOWN, f"{node} {'does not know' if is_there else 'still knows'} {rule}"
            )
    for user, password in passwords.items():
        if state.passwords.get(user) != password:
            yield Violation(
                KNOWN,
                f"{node} knows password {state.passwords.get(user)} of {user}, not {password}",
            )


def _names(codes: Iterable[ErrorCode]) -> str:
    return " or ".join(sorted(code.name for code in codes))


def _listed(bits: int) -> str:
    return "+".join(operation.name for operation in AclOperation if bits >> operation & 1) or str(
        bits
    )
