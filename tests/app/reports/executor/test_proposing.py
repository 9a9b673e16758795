"""Plans that are made in a forked process."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from app.forked import ForkFailedError
from app.reports.executor import proposing
from app.reports.executor.drains import proposed_rows
from app.reports.executor.driver import DrainRefusedError
from app.reports.executor.plan import PlanAgain
from app.reports.executor.plan_text import PlanError
from app.reports.proposals.options import BALANCE, Options
from tests.app.reports.clusters import broker, image, partition

SHOWN = image([broker(each, None) for each in (1, 2, 3)], {"orders": [partition("1 2")] * 6})
OPTIONS = Options(goals=frozenset({BALANCE}), tolerance_percent=0)


def test_a_plan_is_made_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(*arguments: object) -> object:
        (tmp_path / "pid").write_text(str(os.getpid()))
        return proposed_rows(*arguments)  # type: ignore[arg-type]  # those of the function

    monkeypatch.setattr(proposing, "proposed_rows", recorded)
    rows, numbers = asyncio.run(proposing.proposed(SHOWN, OPTIONS, {}))
    assert (rows, numbers) == proposed_rows(SHOWN, OPTIONS, {})
    assert numbers["moves"] == 4
    assert int((tmp_path / "pid").read_text()) != os.getpid()


def test_what_the_planner_refuses_is_refused_here() -> None:
    with pytest.raises(PlanError, match=r"Broker 9 is not in the cluster\."):
        asyncio.run(proposing.drained(SHOWN, (9,), (), {}))
    with pytest.raises(DrainRefusedError, match=r"Broker 9 is not in the cluster\."):
        asyncio.run(proposing.proposed_again(SHOWN, PlanAgain((9,)), {}))


def test_a_killed_process_refuses_a_new_plan_and_lets_a_drain_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(proposing, "proposed_rows", killed)
    monkeypatch.setattr(proposing, "propose_again", killed)
    with pytest.raises(PlanError, match=r"No plan could be made: The forked process was killed by SIGKILL\."):
        asyncio.run(proposing.proposed(SHOWN, OPTIONS, {}))
    with pytest.raises(ForkFailedError, match="SIGKILL"):
        asyncio.run(proposing.proposed_again(SHOWN, PlanAgain((1,)), {}))
