"""The preconditions of voter changes, for quorums written by hand."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from rpds import HashTrieMap

from app.cluster.quorum import Quorum, Replica
from app.cluster.voter_changes import FaultTolerance, VoterChange, VoterChangeRefused, plan_add, plan_remove
from kraft_core.image.metadata_image import ControllerRegistration, Endpoint, VersionRange
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.uuids import uuid_to_text

OTHER_DISK = UUID(int=7 << 100)


def directory(node_id: int) -> UUID:
    return UUID(int=node_id << 64)


def replica(node_id: int, *, is_leader: bool = False, is_caught_up: bool = True, lag: int | None = 0) -> Replica:
    return Replica(
        id=node_id,
        directory_id=directory(node_id),
        endpoints=(("CONTROLLER", f"node-{node_id}", 9093),),
        log_end_offset=100 - (lag or 0),
        last_fetch_timestamp=1,
        last_caught_up_timestamp=1,
        lag=lag,
        lag_ms=None if lag is None else 0,
        is_leader=is_leader,
        is_caught_up=is_caught_up,
    )


def keys(voters: int) -> tuple[tuple[int, UUID], ...]:
    return tuple((each, directory(each)) for each in range(1, voters + 1))


def quorum(voters: int = 3, behind: Sequence[int] = (), observers: Sequence[Replica] = ()) -> Quorum:
    """Voters 1 to `voters`, led by 1, with observer 4 unless others are given."""
    return Quorum(
        leader_id=1,
        leader_epoch=5,
        high_watermark=100,
        kraft_version=1,
        voters=tuple(
            replica(each, is_leader=each == 1, is_caught_up=each not in behind) for each in range(1, voters + 1)
        ),
        observers=tuple(observers) or (replica(voters + 1),),
        committed_voters=keys(voters),
        log_start_offset=0,
        snapshot=None,
        is_live=True,
        error=None,
        asked_at_ms=0,
    )


REGISTERED = ControllerRegistration(
    id=4,
    incarnation_id=UUID(int=1),
    listeners=(Endpoint("CONTROLLER", "node-4", 9093),),
    supported_features=HashTrieMap({"kraft.version": VersionRange(0, 1)}),
)


def add(
    found: Quorum,
    node_id: int = 4,
    directory_id: UUID | None = None,
    registration: ControllerRegistration | None = REGISTERED,
    endpoints: tuple[tuple[str, str, int], ...] = (),
) -> VoterChange:
    return plan_add(found, registration, node_id, directory_id or directory(node_id), endpoints)


def remove(found: Quorum, node_id: int, directory_id: UUID | None = None) -> VoterChange:
    return plan_remove(found, node_id, directory_id or directory(node_id))


def failed(change: VoterChange) -> list[str]:
    return [check.name for check in change.failed]


def test_a_caught_up_observer_of_a_healthy_quorum_may_become_a_voter() -> None:
    change = add(quorum())
    assert failed(change) == []
    assert change.endpoints == (("CONTROLLER", "node-4", 9093),)
    assert (change.before.voter_ids, change.after.voter_ids) == ((1, 2, 3), (1, 2, 3, 4))
    assert (change.before.majority, change.after.majority) == (2, 3)


@pytest.mark.parametrize(
    ("voters", "behind", "tolerated", "now"),
    [
        (1, 0, 0, 0),
        (2, 0, 0, 0),
        (3, 0, 1, 1),
        (3, 1, 1, 0),
        (4, 0, 1, 1),
        (5, 0, 2, 2),
        (5, 1, 2, 1),
        (5, 4, 2, 0),
        (0, 0, 0, 0),
    ],
)
def test_tolerated_failures_are_counted_for_caught_up_voters_and_for_now(
    voters: int, behind: int, tolerated: int, now: int
) -> None:
    tolerance = FaultTolerance(tuple(range(voters)), tuple(range(behind)))
    assert (tolerance.failures_tolerated, tolerance.failures_tolerated_now) == (tolerated, now)


def test_without_a_leader_no_other_precondition_is_checked() -> None:
    silent = replace(quorum(), is_live=False, error="connection refused")
    for change in (add(silent), remove(silent, 3)):
        assert [check.name for check in change.checks] == ["leader-answers"]
        assert failed(change) == ["leader-answers"]
        assert VoterChangeRefused(change).error == ErrorCode.NOT_CONTROLLER


def test_static_voters_are_not_changed_through_the_log() -> None:
    static = replace(quorum(), kraft_version=0, committed_voters=None)
    for change in (plan_add(static, REGISTERED, 4, directory(4)), plan_remove(static, 3, directory(3))):
        assert failed(change) == ["kraft.version"]
        assert VoterChangeRefused(change).error == ErrorCode.UNSUPPORTED_VERSION


def test_an_uncommitted_voter_set_is_a_pending_change() -> None:
    found = replace(quorum(4), committed_voters=keys(3))
    for change in (plan_add(found, REGISTERED, 5, directory(5)), plan_remove(found, 2, directory(2))):
        assert failed(change) == ["no-change-under-way"]
        assert VoterChangeRefused(change).error is None
        assert "voters 1, 2, 3, 4, committed are 1, 2, 3" in str(VoterChangeRefused(change))


def test_another_directory_of_the_same_voter_is_a_pending_change() -> None:
    found = replace(quorum(), committed_voters=((1, OTHER_DISK), *keys(3)[1:]))
    assert failed(plan_remove(found, 2, directory(2))) == ["no-change-under-way"]


def test_a_leader_without_a_commit_in_its_epoch_accepts_no_change() -> None:
    assert failed(add(replace(quorum(), high_watermark=-1))) == ["no-change-under-way"]


# additions


def test_the_id_of_a_voter_is_a_duplicate_and_another_directory_says_what_to_do() -> None:
    same = add(quorum(observers=[replica(3)]), 3)
    assert failed(same) == ["not-yet-a-voter"]
    assert VoterChangeRefused(same).error == ErrorCode.DUPLICATE_VOTER
    found = quorum(observers=[replace(replica(3), directory_id=OTHER_DISK)])
    other = add(found, 3, OTHER_DISK)
    assert failed(other) == ["not-yet-a-voter"]
    assert f"with directory {uuid_to_text(directory(3))}: if that disk is gone, remove that voter first" in str(
        VoterChangeRefused(other)
    )


def test_a_node_that_does_not_fetch_is_not_a_candidate() -> None:
    change = add(quorum(observers=[replica(9)]))
    assert failed(change) == ["observed"]
    assert change.after.behind == (4,), "it does not count for the majority either"
    assert VoterChangeRefused(change).error is None


def test_a_node_that_fetches_with_another_directory_is_named() -> None:
    change = add(quorum(observers=[replace(replica(4), directory_id=OTHER_DISK)]))
    assert failed(change) == ["observed"]
    assert uuid_to_text(OTHER_DISK) in change.failed[0].detail


def test_an_observer_that_lags_waits() -> None:
    change = add(quorum(observers=[replica(4, is_caught_up=False, lag=50)]))
    assert failed(change) == ["caught-up"]
    assert "50 records behind" in change.failed[0].detail


def test_an_added_voter_that_would_cost_the_majority_is_refused() -> None:
    """Two of three are enough. With a fourth that lags, three of four are needed and two are caught up."""
    change = add(quorum(behind=[3], observers=[replica(4, is_caught_up=False)]))
    assert failed(change) == ["caught-up", "majority-afterwards"]


def test_given_endpoints_override_registered_ones_and_need_the_leaders_listener() -> None:
    given = (("CONTROLLER", "elsewhere", 1),)
    assert add(quorum(), endpoints=given).endpoints == given
    assert failed(add(quorum(), endpoints=(("OTHER", "node-4", 1),))) == ["endpoints"]
    unknown = add(quorum(), registration=None)
    assert failed(unknown) == ["endpoints"]
    assert "it is not registered as a controller" in unknown.failed[0].detail
    assert VoterChangeRefused(unknown).error == ErrorCode.INVALID_REQUEST
    assert failed(add(quorum(), registration=None, endpoints=given)) == []


def test_software_without_kraft_version_1_cannot_be_a_voter() -> None:
    old = ControllerRegistration(
        id=4,
        incarnation_id=UUID(int=1),
        listeners=REGISTERED.listeners,
        supported_features=HashTrieMap({"kraft.version": VersionRange(0, 0)}),
    )
    assert failed(add(quorum(), registration=old)) == ["supports-kraft-version"]


# removals


def test_a_voter_may_be_removed_while_a_majority_remains() -> None:
    change = remove(quorum(), 3)
    assert failed(change) == []
    assert change.after.voter_ids == (1, 2)
    assert any("Fewer failures are tolerated than now: 0 instead of 1." in line for line in change.warnings)


def test_a_dead_voter_may_be_removed_but_not_a_live_one_beside_it() -> None:
    assert failed(remove(quorum(behind=[3]), 3)) == []
    stuck = remove(quorum(behind=[3]), 2)
    assert failed(stuck) == ["majority-afterwards"]
    assert "1 of 2 voters are caught up, a decision needs 2. Behind or silent: 3" in stuck.failed[0].detail


@pytest.mark.parametrize(("node_id", "directory_id"), [(4, directory(4)), (2, OTHER_DISK)])
def test_a_node_that_is_not_a_voter_is_not_found(node_id: int, directory_id: UUID) -> None:
    change = remove(quorum(), node_id, directory_id)
    assert failed(change) == ["is-a-voter"]
    assert VoterChangeRefused(change).error == ErrorCode.VOTER_NOT_FOUND
    assert change.after == change.before


def test_the_last_voter_stays() -> None:
    change = remove(quorum(1), 1)
    assert failed(change) == ["not-the-last"]
    assert VoterChangeRefused(change).error == ErrorCode.VOTER_NOT_FOUND


# warnings


def warned(change: VoterChange, words: str) -> bool:
    return any(words in line for line in change.warnings)


def test_an_even_number_of_voters_is_a_warning() -> None:
    assert warned(add(quorum()), "4 voters tolerate 1 failure, no more than 3 would")
    assert warned(remove(quorum(3), 3), "2 voters tolerate 0 failures, no more than 1 would")
    assert not warned(remove(quorum(4), 4), "voters tolerate")


def test_removing_the_leader_or_an_automatic_joiner_is_a_warning() -> None:
    assert warned(remove(quorum(), 1), "Node 1 leads. It resigns")
    assert not warned(remove(quorum(), 2), "leads")
    assert warned(remove(quorum(), 2), "controller.quorum.auto.join.enable=true")
    assert not warned(add(quorum()), "auto.join")


def test_a_single_voter_and_voters_behind_are_warnings() -> None:
    assert warned(remove(quorum(2), 2), "A single voter tolerates no failure.")
    assert warned(remove(quorum(4, behind=[4]), 3), "do not count now: 4")
