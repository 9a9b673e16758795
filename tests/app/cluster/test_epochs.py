"""The history of epochs: what the log and this process's own observations show."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.cluster.epoch_keeper import load_epochs, save_epochs
from app.cluster.epochs import Epoch, EpochHistory, Leadership
from app.db.database import Database
from app.db.migrate import upgrade
from kraft_core.clients.metadata_observer import LeaderLoss, LossKind


def epoch(number: int, leader_id: int, start: int, end: int = -1, **more: object) -> Epoch:
    """An epoch from `start` whose last record is the one before `end`. Its time is ten times its offset."""
    known = Epoch(
        epoch=number,
        leader_id=leader_id,
        start_offset=start,
        timestamp_ms=start * 10,
        voter_ids=(1, 2, 3),
        granting_voter_ids=(leader_id, leader_id % 3 + 1),
    )
    if end >= 0:
        known = replace(known, last_offset=end - 1, last_timestamp_ms=(end - 1) * 10)
    return replace(known, **more)  # type: ignore[arg-type]  # fields by name


def history(*epochs: Epoch) -> EpochHistory:
    found = EpochHistory()
    found.remember(epochs)
    return found


def at(found: EpochHistory, number: int) -> Leadership:
    return next(each for each in found.leaderships() if each.epoch.epoch == number)


def test_an_epoch_lasts_from_its_first_record_to_its_last() -> None:
    found = EpochHistory()
    found.led(epoch(1, 1, 0))
    for offset in range(1, 50):
        found.wrote(1, offset, offset * 10)
    assert (at(found, 1).led_ms, at(found, 1).ended) == (490, "leads")


def test_the_gap_is_known_only_between_neighbours_in_the_log() -> None:
    found = history(epoch(1, 1, 0, 100), epoch(4, 2, 100, 150), epoch(9, 3, 200))
    assert (at(found, 4).gap_ms, at(found, 4).epochs_before, at(found, 4).previous_leader_id) == (10, 2, 1)
    assert (at(found, 9).gap_ms, at(found, 9).epochs_before, at(found, 9).previous_leader_id) == (None, None, None)
    assert at(found, 4).ended == "unknown"  # the next epoch is unknown, and so is the vote in it


@pytest.mark.parametrize(
    ("following", "how", "reason"),
    [
        (epoch(2, 2, 100, voter_ids=(2, 3), granting_voter_ids=(2, 3)), "closed", "removed"),
        (epoch(2, 2, 100, granting_voter_ids=(2, 3)), "resigned", "resigned"),
        (epoch(2, 2, 100, granting_voter_ids=(1, 2)), "closed", "voted-for-successor"),
        (epoch(2, 2, 100, granting_voter_ids=(2, 3)), "closed", "connection-closed"),
        (epoch(2, 2, 100, granting_voter_ids=(2, 3)), "silent", "silent"),
        (epoch(2, 1, 100), None, "led-again"),
        (epoch(2, 1, 100), "closed", "connection-closed"),
        (epoch(2, 2, 100, granting_voter_ids=(2, 3)), None, "unknown"),
    ],
)
def test_an_epochs_end_has_a_reason_only_with_evidence(following: Epoch, how: LossKind | None, reason: str) -> None:
    found = history(epoch(1, 1, 0, 100), following)
    if how is not None:
        found.lost(LeaderLoss(1, 1, how, 5_000))
    assert at(found, 1).ended == reason


def test_the_time_without_a_leader_is_measured_by_this_processs_clock() -> None:
    found = EpochHistory()
    found.led(epoch(1, 1, 0))
    found.wrote(1, 99, 990)
    found.lost(LeaderLoss(1, 1, "closed", 5_000))
    found.found(2, 7_500)  # answers before its first record is committed
    found.led(epoch(2, 2, 100))
    assert at(found, 2).leaderless_ms == 2_500
    assert at(found, 2).was_long_without
    assert at(found, 1).epoch.lost_how == "closed"


def test_a_leader_that_is_found_again_has_not_ended() -> None:
    found = history(epoch(1, 1, 0, 100))
    found.lost(LeaderLoss(1, 1, "silent", 5_000))
    found.found(1, 5_020)
    found.led(epoch(2, 2, 100, granting_voter_ids=(2, 3)))
    assert at(found, 1).ended == "unknown"
    assert at(found, 2).leaderless_ms is None


def test_the_log_overrides_stored_epochs() -> None:
    found = history(epoch(1, 3, 7, 50, lost_how="closed", lost_at_ms=1))
    found.led(epoch(1, 1, 0))
    assert (at(found, 1).epoch.leader_id, at(found, 1).epoch.lost_how) == (1, None)


def test_stored_epochs_complete_those_of_the_log_and_never_replace_them() -> None:
    found = EpochHistory()
    found.led(epoch(1, 1, 0))
    found.wrote(1, 10, 100)
    found.remember([epoch(1, 1, 0, 100, leaderless_ms=7), epoch(1, 2, 0, 900)])
    assert (at(found, 1).epoch.leader_id, at(found, 1).epoch.last_offset) == (1, 99)
    assert at(found, 1).leaderless_ms == 7


def test_no_more_epochs_are_kept_than_allowed() -> None:
    found = EpochHistory(epochs_max=3)
    for number in range(1, 10):
        found.led(epoch(number, 1, number * 10))
    assert [each.epoch for each in found.epochs] == [9, 8, 7]


def test_epochs_survive_a_restart_and_two_processes_complete_each_other(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/web.db")
    upgrade(database.engine)
    seen = epoch(1, 1, 0, 100, lost_how="silent", lost_at_ms=5, leaderless_ms=4)
    database.write_now(save_epochs, "cluster", [seen, epoch(2, 2, 100)])
    database.write_now(save_epochs, "cluster", [epoch(1, 1, 0, 90)])  # stored by a process that did not see its end
    database.write_now(save_epochs, "another", [epoch(1, 3, 0)])
    kept = database.write_now(load_epochs, "cluster")
    database.close()
    assert kept == [epoch(2, 2, 100), seen]


def test_processes_agree_on_what_is_stored_and_never_on_the_end_of_a_present_leader() -> None:
    found = history(epoch(1, 1, 0, 100, leaderless_ms=10), epoch(2, 2, 100, leaderless_ms=20))
    found.take_unsaved()
    elsewhere = {"lost_how": "silent", "lost_at_ms": 5}
    found.agree([epoch(2, 2, 100, leaderless_ms=200, **elsewhere), epoch(1, 1, 0, leaderless_ms=100, **elsewhere)])
    found.agree([epoch(2, 2, 100), epoch(1, 3, 0, lost_how="closed")])
    assert [(each.leaderless_ms, each.lost_how) for each in found.epochs] == [(200, None), (100, "silent")]
    assert found.take_unsaved() == []
    found.lost(LeaderLoss(2, 2, "closed", 5_000))
    found.agree([epoch(2, 2, 100, **elsewhere)])
    assert found.take_unsaved()[-1].lost_how == "closed", "this is stored before others are read"


def test_epochs_that_could_not_be_stored_are_stored_later() -> None:
    found = EpochHistory()
    found.led(epoch(1, 1, 0))
    found.wrote(1, 99, 990)
    taken = found.take_unsaved()
    assert found.take_unsaved() == []
    found.not_saved(taken)
    assert found.take_unsaved() == taken
    found.led(epoch(2, 2, 100))
    assert [each.epoch for each in found.take_unsaved()] == [1, 2]  # the first one again, since its end is known now
