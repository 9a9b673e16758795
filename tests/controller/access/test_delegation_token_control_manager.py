"""Delegation tokens: creation, lifetime, renewal and expiry."""

import hashlib
import hmac
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.controller.access.delegation_token_control_manager import (
    allows_token_requests,
)
from kraft_core.controller.access.request_access import EVERYTHING
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.image.metadata_image import DelegationToken
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import DelegationTokenRecord, FeatureLevelRecord, RemoveDelegationTokenRecord
from tests.controller.active_controller import ActiveController

DAY_MS = 86_400_000
PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = range(4)
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


def controller(**settings_: Any) -> ActiveController:
    return ActiveController(
        **{"delegation_token_secret_key": "secret", "session_timeout_ms": 2**40, "auto_leader_rebalance_enable": False}
        | settings_
    )


@pytest.fixture
def active() -> ActiveController:
    return controller()


def ask(active: ActiveController, message: Any, principal: str = ALICE, **context: Any) -> Any:
    return active.ask(message, **{"principal": principal, "security_protocol": SASL_SSL, **context})


def create(
    active: ActiveController, *renewers: str, principal: str = ALICE, lifetime_ms: int = -1, **fields: Any
) -> Any:
    pairs = (renewer.split(":") for renewer in renewers)
    request = m.CreateDelegationTokenRequest(
        renewers=tuple(
            m.CreateDelegationTokenRequestCreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in pairs
        ),
        max_lifetime_ms=lifetime_ms,
        **fields,
    )
    return ask(active, request, principal)


def renew(active: ActiveController, shown: bytes, principal: str = ALICE, period_ms: int = -1) -> Any:
    return ask(active, m.RenewDelegationTokenRequest(hmac=shown, renew_period_ms=period_ms), principal)


def expire(active: ActiveController, shown: bytes, principal: str = ALICE, period_ms: int = -1) -> Any:
    return ask(active, m.ExpireDelegationTokenRequest(hmac=shown, expiry_time_period_ms=period_ms), principal)


def tokens(active: ActiveController) -> list[DelegationToken]:
    return sorted(active.committed.delegation_tokens.values(), key=lambda token: token.token_id)


def test_a_token_is_recorded_without_its_hmac(active: ActiveController) -> None:
    answer = create(active, BOB)
    now = active.now_ms
    (token,) = tokens(active)
    assert token == DelegationToken(answer.token_id, ALICE, ALICE, (BOB,), now, now + 7 * DAY_MS, now + DAY_MS)
    assert answer.hmac == hmac.digest(b"secret", answer.token_id.encode(), hashlib.sha512)
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (0, "User", "alice")
    assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == ("User", "alice")
    timestamps = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    assert timestamps == (now, now + DAY_MS, now + 7 * DAY_MS)
    assert not any(answer.hmac in raw for raw in active.writer.batches)


def test_a_token_may_be_created_for_another_owner(active: ActiveController) -> None:
    """KIP-373."""
    answer = create(active, owner_principal_type="User", owner_principal_name="bob")
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "alice")
    (token,) = tokens(active)
    assert (token.owner, token.requester) == (BOB, ALICE)


def test_a_token_for_another_needs_the_right_to_create_tokens(active: ActiveController) -> None:
    asked: list[str] = []
    access = replace(EVERYTHING, may_create_tokens=lambda owner: bool(asked.append(owner)))
    request = m.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    answer = ask(active, request, access=access)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "alice")
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)
    own = m.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="alice")
    assert ask(active, own, access=access).error_code == 0
    assert ask(active, m.CreateDelegationTokenRequest(), access=access).error_code == 0
    assert asked == [BOB]


def test_a_token_lasts_as_requested_and_no_longer_than_allowed(active: ActiveController) -> None:
    now = active.now_ms
    for asked_ms, lasts_ms, first_ms in (
        (1000, 1000, 1000),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (9 * DAY_MS, 7 * DAY_MS, DAY_MS),
        (0, 7 * DAY_MS, DAY_MS),
    ):
        answer = create(active, lifetime_ms=asked_ms)
        assert (answer.max_timestamp_ms, answer.expiry_timestamp_ms) == (now + lasts_ms, now + first_ms)


def test_timestamps_are_capped_at_int64() -> None:
    active = controller(delegation_token_max_lifetime_ms=2**63 - 1, delegation_token_expiry_time_ms=2**63 - 1)
    answer = create(active)
    assert (answer.max_timestamp_ms, answer.expiry_timestamp_ms) == (2**63 - 1, 2**63 - 1)


def test_a_renewer_must_be_a_user(active: ActiveController) -> None:
    answer = create(active, BOB, "Group:g")
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (answer.principal_name, answer.token_id, answer.hmac, answer.max_timestamp_ms) == ("alice", "", b"", 0)
    assert not tokens(active)


@pytest.mark.parametrize("principal", [ALICE, BOB])
def test_owner_and_renewers_extend_a_token_up_to_its_maximum_timestamp(
    active: ActiveController, principal: str
) -> None:
    answer = create(active, BOB)
    active.advance(DAY_MS // 2)
    renewed = renew(active, answer.hmac, principal)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, active.now_ms + DAY_MS)
    assert tokens(active)[0].expiration_timestamp == active.now_ms + DAY_MS
    assert renew(active, answer.hmac, principal, 1000).expiry_timestamp_ms == active.now_ms + 1000
    for _ in range(8):
        last = renew(active, answer.hmac, principal, 9 * DAY_MS)
        active.advance(min(DAY_MS - 1, answer.max_timestamp_ms - active.now_ms))
    assert last.expiry_timestamp_ms == answer.max_timestamp_ms


def test_others_may_neither_renew_nor_expire_a_token(active: ActiveController) -> None:
    """Neither may the principal that created it for the owner."""
    answer = create(active, owner_principal_type="User", owner_principal_name="bob")
    for principal in (ALICE, CAROL):
        for change in (renew, expire):
            refused = change(active, answer.hmac, principal)
            assert (refused.error_code, refused.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert len(tokens(active)) == 1


def test_an_unknown_token_is_not_found(active: ActiveController) -> None:
    create(active)
    for change in (renew, expire):
        for shown in (b"", b"x" * 64):
            assert change(active, shown).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_an_expired_and_removed_token_is_not_found(active: ActiveController) -> None:
    first, second = create(active), create(active)
    renew(active, first.hmac)
    assert expire(active, first.hmac).error_code == 0
    assert renew(active, first.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    third = create(active)
    assert [renew(active, answer.hmac).error_code for answer in (second, third)] == [0, 0]


def test_immediate_expiry_removes_a_token_and_later_expiry_sets_its_timestamp(active: ActiveController) -> None:
    answer = create(active)
    later = expire(active, answer.hmac, period_ms=5000)
    assert (later.error_code, later.expiry_timestamp_ms) == (0, active.now_ms + 5000)
    assert tokens(active)[0].expiration_timestamp == active.now_ms + 5000
    far = expire(active, answer.hmac, period_ms=2**62)
    assert far.expiry_timestamp_ms == answer.max_timestamp_ms
    at_once = expire(active, answer.hmac)
    assert (at_once.error_code, at_once.expiry_timestamp_ms) == (0, active.now_ms)
    assert not tokens(active)
    assert isinstance(active.log()[-1], RemoveDelegationTokenRecord)


def test_an_expired_token_can_be_removed_but_not_renewed() -> None:
    active = controller(delegation_token_expiry_check_interval_ms=0)
    answer = create(active, lifetime_ms=1000)
    active.advance(1000)
    assert renew(active, answer.hmac).error_code == 0, "a token is valid at its last millisecond"
    active.advance(1)
    for refused in (renew(active, answer.hmac), expire(active, answer.hmac, period_ms=10)):
        assert (refused.error_code, refused.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert expire(active, answer.hmac).error_code == 0


def test_expired_tokens_are_removed(active: ActiveController) -> None:
    create(active, lifetime_ms=1000)
    kept = create(active)
    active.advance(3_600_000)
    assert [token.token_id for token in tokens(active)] == [kept.token_id]
    active.advance(DAY_MS)
    assert not tokens(active), "it was not renewed"


def test_a_sweep_removes_1000_tokens_at_once_and_continues_soon(active: ActiveController) -> None:
    expired = DelegationTokenRecord(owner=ALICE, requester=ALICE, expiration_timestamp=1, max_timestamp=1)
    active.writer.append([msgspec.structs.replace(expired, token_id=f"t{number}") for number in range(2500)])
    active.commit()
    active.advance(3_600_000)
    assert len(tokens(active)) == 1500
    active.advance(20)
    assert not tokens(active)


def test_without_a_key_there_are_no_tokens() -> None:
    active = controller(delegation_token_secret_key=None)
    answer = create(active, "Group:g")
    assert (answer.error_code, answer.principal_name, answer.max_timestamp_ms) == (
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        "alice",
        0,
    )
    for change in (renew, expire):
        assert change(active, b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_tokens_need_metadata_version_14() -> None:
    active = controller(bootstrap_features={"metadata.version": 13})
    assert create(active).error_code == ErrorCode.UNSUPPORTED_VERSION
    active.writer.append([FeatureLevelRecord(name="metadata.version", feature_level=14)])
    active.commit()
    assert create(active).error_code == 0


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"security_protocol": PLAINTEXT}, False),
        ({"security_protocol": SSL}, False),
        ({"security_protocol": SSL, "principal": "User:CN=a"}, True),
        ({"security_protocol": SASL_PLAINTEXT}, True),
        ({"security_protocol": SASL_SSL, "token_authenticated": True}, False),
        ({"security_protocol": PLAINTEXT, "forwarded": True}, True),
        ({"security_protocol": PLAINTEXT, "forwarded": True, "token_authenticated": True}, False),
    ],
)
def test_token_requests_need_an_authenticated_connection(context: dict[str, Any], expected: bool) -> None:
    """DelegationTokenRequestsOnPlainTextTest; a token may not create a token."""
    assert allows_token_requests(ControllerRequestContext(**context)) is expected


def test_every_controller_refuses_token_requests_on_a_plaintext_connection(active: ActiveController) -> None:
    active.lose_leadership()
    for request in (
        m.CreateDelegationTokenRequest(),
        m.RenewDelegationTokenRequest(),
        m.ExpireDelegationTokenRequest(),
    ):
        answer = ask(active, request, security_protocol=PLAINTEXT)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert answer.expiry_timestamp_ms == -1
        assert ask(active, request).error_code == ErrorCode.NOT_CONTROLLER


def test_the_secret_key_is_not_in_the_repr(active: ActiveController) -> None:
    assert "secret'" not in repr(active.config)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "renew", "expire", "end", "wait"]), st.integers(0, 3), st.integers(1, 3)),
    max_size=25,
)


@given(_STEPS)
@settings(max_examples=80, deadline=None)
def test_a_token_expires_as_its_last_change_says(steps: list[tuple[str, int, int]]) -> None:
    active = controller(delegation_token_expiry_check_interval_ms=0, delegation_token_expiry_time_ms=2000)
    model: dict[bytes, tuple[int, int]] = {}  # HMAC -> (expiry, maximum timestamp)
    shown: list[bytes] = []
    for what, which, seconds in steps:
        now = active.now_ms
        if what == "create":
            answer = create(active, lifetime_ms=seconds * 2500)
            shown.append(answer.hmac)
            model[answer.hmac] = (min(now + 2000, now + seconds * 2500), now + seconds * 2500)
        elif what == "wait":
            active.advance(seconds * 700)
        elif shown:
            each = shown[which % len(shown)]
            is_there, (end, last) = each in model, model.get(each, (0, 0))
            if what == "end":
                assert (expire(active, each).error_code == 0) is is_there
                model.pop(each, None)
                continue
            change, longest = (renew, 2000) if what == "renew" else (expire, 2**40)
            answer = change(active, each, period_ms=seconds * 800)
            assert (answer.error_code == 0) is (is_there and end >= now)
            if answer.error_code == 0:
                model[each] = (min(last, now + min(longest, seconds * 800)), last)
    assert sorted(token.expiration_timestamp for token in tokens(active)) == sorted(end for end, _ in model.values())
    assert active.replayed().same_metadata(active.committed)
