"""The state of the quorum as one value, for quorums written by hand: silent voters and the sentence about them."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from app.cluster.quorum import Quorum, Replica, unmeasured, with_reach
from app.cluster.quorum_text import state_text, state_tone
from app.cluster.reach import Address, Reach

LOST_AT_MS = 1_000_000_000_000
SINCE = "2001-09-09 01:46:40 UTC"
LEADER_CLOCK_MS = 77_000  # an unrelated clock


def address(node_id: int) -> Address:
    return (f"node-{node_id}", 9093)


def voter(node_id: int, *, is_leader: bool = False, fetched_ms_ago: int | None = None) -> Replica:
    made = unmeasured(node_id, UUID(int=node_id), (("CONTROLLER", *address(node_id)),), address(node_id))
    if is_leader:
        return replace(made, is_leader=True, last_caught_up_timestamp=LEADER_CLOCK_MS)
    fetched_at = -1 if fetched_ms_ago is None else LEADER_CLOCK_MS - fetched_ms_ago
    return replace(made, last_fetch_timestamp=fetched_at)


def quorum(
    voters: Sequence[Replica], *, dead: Sequence[int] = (), leader_id: int | None = 1, asked_after_ms: int = 0
) -> Quorum:
    """A quorum whose `dead` voters this process lost; the leader was asked this many ms after that."""
    described = Quorum(
        leader_id=leader_id,
        leader_epoch=7,
        high_watermark=100,
        kraft_version=1,
        voters=tuple(voters),
        observers=(),
        committed_voters=None,
        log_start_offset=0,
        snapshot=None,
        is_live=leader_id is not None,
        error=None,
        asked_at_ms=LOST_AT_MS + asked_after_ms,
    )
    reached = {
        address(each.id): Reach(
            host=f"node-{each.id}", port=9093, answers=each.id not in dead, since_ms=LOST_AT_MS, cause="closed"
        )
        for each in voters
    }
    return with_reach(described, reached)


def three(leader_id: int | None = 1) -> list[Replica]:
    return [voter(each, is_leader=each == leader_id) for each in (1, 2, 3)]


def test_the_state_text_is_empty_while_all_voters_answer() -> None:
    found = quorum(three())
    assert (found.standing, state_text(found), state_tone(found)) == ("led", "", "")


def test_a_silent_voter_is_named_with_its_address_and_time() -> None:
    found = quorum(three(), dead=[3])
    assert (found.standing, state_tone(found)) == ("led", "warn")
    assert state_text(found) == (
        "Not all voters answer: 2 of 3 voters answer (nodes 1 and 2), 2 are needed;"
        f" node 3 at node-3:9093 has not answered since {SINCE}."
    )


def test_a_lost_majority_is_reported_before_the_leader_notices() -> None:
    found = quorum(three(), dead=[2, 3])
    assert (found.standing, found.has_majority, state_tone(found)) == ("no-majority", False, "bad")
    assert state_text(found).startswith(
        "The quorum has lost its majority: 1 of 3 voters answers (node 1), 2 are needed; node 2 at node-2:9093"
    )


def test_a_majority_without_a_leader_differs_from_a_lost_majority() -> None:
    found = quorum(three(None), dead=[1], leader_id=None)
    assert found.standing == "no-leader"
    assert state_text(found).startswith("The quorum has no leader (epoch 7): 2 of 3 voters answer (nodes 2 and 3)")


def test_a_dead_single_voter_is_a_lost_majority() -> None:
    found = quorum([voter(1)], dead=[1], leader_id=None)
    assert state_text(found).startswith("The quorum has lost its majority: 0 of 1 voter answers, 1 is needed;")


@pytest.mark.parametrize(
    ("fetched_ms_ago", "asked_after_ms", "is_silent"),
    [
        (200, 5_000, False),  # cut off from this process, and the leader still hears it
        (200, 100, True),  # the fetch was before it was lost
        (4_000, 60_000, True),  # cut off from this process for long, and dead for the leader since then
        (None, 5_000, True),  # the leader never heard it
    ],
)
def test_a_voter_from_which_the_leader_hears_is_not_silent(
    fetched_ms_ago: int | None, asked_after_ms: int, is_silent: bool
) -> None:
    voters = [voter(1, is_leader=True), voter(2), voter(3, fetched_ms_ago=fetched_ms_ago)]
    found = quorum(voters, dead=[3], asked_after_ms=asked_after_ms)
    assert [each.is_silent for each in found.voters] == [False, False, is_silent]


def test_voters_not_yet_asked_are_not_silent() -> None:
    found = with_reach(quorum(three()), {})
    assert (found.standing, found.silent) == ("led", ())


def test_before_anything_is_known_the_bootstrap_servers_are_named() -> None:
    found = quorum([], leader_id=None)
    asked = (
        Reach(host="a", port=1, answers=False, since_ms=LOST_AT_MS, cause="refused"),
        Reach(host="b", port=2, answers=True, since_ms=LOST_AT_MS),
    )
    assert state_text(replace(found, asked=asked)) == (
        "No controller has described a quorum yet: "
        f"a:1 has not answered since {SINCE} (refused); b:2 answers, but names no leader."
    )
