"""A short run of the chaos program. `python -m tests.hostile.chaos --seed N --seconds 90` is the long run."""

import asyncio
from pathlib import Path

from tests.hostile.chaos import run, stop_and_compare, tormented

SEED = 4
SECONDS = 15


def test_acknowledged_changes_survive_kills_pauses_and_broken_links(tmp_path: Path) -> None:
    with tormented(tmp_path) as quorum:
        outcome = asyncio.run(run(quorum, SEED, SECONDS))
        wrong, snapshots = stop_and_compare(quorum, outcome.committed)
        print(outcome, snapshots)
        assert outcome.wrong + wrong == []
        assert outcome.accounts.acknowledged > 100
        assert snapshots > 0
