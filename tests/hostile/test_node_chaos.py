"""A short run of node_chaos. `python -m tests.hostile.node_chaos --seed N --seconds 90` is the long run."""

from pathlib import Path

from tests.hostile.node_chaos import run

SEED = 2
SECONDS = 5


def test_acknowledged_records_survive_kills_stops_and_pauses(tmp_path: Path) -> None:
    outcome = run(tmp_path / "node", SEED, SECONDS)
    print(outcome, f"replay: python -m tests.hostile.node_chaos --seed {SEED} --seconds {SECONDS}")
    assert outcome.wrong == []
    assert outcome.accounts.acknowledged > 100
    assert outcome.accounts.commits > 0
