"""A granted vote outlives the process that granted it: invariants 8 and 9 of docs/invariants.md."""

import json
import shutil
from pathlib import Path

from kraft_core.protocol.errors import ErrorCode
from tests.hostile.votes import ask_for_vote
from tests.interop.conclave import Quorum, quorum
from tests.interop.log_files import partition_folder

EPOCHS = (5, 40)


def started(found: Quorum) -> None:
    """Start one of three voters, which cannot become leader, and wait until it listens."""
    process = found.start(1)
    process.wait_for_output("controller_started")


def test_a_vote_survives_a_kill_right_after_it_was_granted(tmp_path: Path) -> None:
    granted, refused = (ErrorCode.NONE, True), (ErrorCode.NONE, False)
    with quorum(tmp_path, 3) as found:
        found.format(1)
        for epoch in EPOCHS:
            started(found)
            assert ask_for_vote(found, 1, 2, epoch) == granted
            found.processes[1].kill()
            state = json.loads((partition_folder(found.folder_of(1)) / "quorum-state").read_bytes())
            assert (state["leaderEpoch"], state["votedId"]) == (epoch, 2)
            found.processes[1].log_file.unlink()
            started(found)
            assert ask_for_vote(found, 1, 3, epoch) == refused
            assert ask_for_vote(found, 1, 2, epoch) == granted
            assert ask_for_vote(found, 1, 3, epoch - 1) == (ErrorCode.FENCED_LEADER_EPOCH, False)
            found.processes[1].kill()
            found.processes[1].log_file.unlink()


def test_a_voter_that_lost_its_metadata_directory_grants_no_vote(tmp_path: Path) -> None:
    """Its directory id is still a voter's, so Apache's node votes, even for a log without acknowledged records."""
    with quorum(tmp_path, 3) as found:
        found.format(1)
        started(found)
        assert ask_for_vote(found, 1, 2, 5) == (ErrorCode.NONE, True)
        found.processes[1].kill()
        shutil.rmtree(partition_folder(found.folder_of(1)))
        found.processes[1].log_file.unlink()
        started(found)
        found.processes[1].wait_for_output("ERROR no_voter_set")
        for epoch in (5, 6):
            assert ask_for_vote(found, 1, 3, epoch) == (ErrorCode.NONE, False)
