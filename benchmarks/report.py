"""The placement report, end to end as the web process makes it, of a tiny cluster, 1,000,000 and 10,000,000 partitions.

From the request to the stored result: the runner forks the export, starts the job, and stores the result in SQLite. The
image is that of `benchmarks.report_image`. DuckDB and polars compute some of the numbers from the same files (see
`benchmarks.report_rivals`), which is what a user could pick instead. Apache has no such report.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.db.database import Database
from app.db.migrate import upgrade
from app.reports import store
from app.reports.job_process import ReportSettings
from app.reports.runner import ReportRunner
from benchmarks.figures import Figure
from benchmarks.placement_plans import placement_plans
from benchmarks.plan import Plan
from benchmarks.report_image import synthetic_image
from benchmarks.report_rivals import expected
from benchmarks.sides import OURS, Side
from kraft_core.image.metadata_image import MetadataImage

TOPICS = 10_000
WAIT_S = 900
MB = 1_000_000
DUCKDB = Side("duckdb", is_apache=False)
POLARS = Side("polars", is_apache=False)
RIVALS = (OURS, DUCKDB, POLARS)


@dataclass(slots=True)
class Measured:
    """A report's seconds in all and by stage, the slowest turn of the event loop meanwhile, memory, and the body."""

    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    slowest_turn_s: float = 0.0
    memory_bytes: int = 0
    """The most that all processes of the run had together."""
    memory_at_peak: dict[str, int] = field(default_factory=dict)
    """By kind of process, at that time."""
    cpu_s: float = 0.0
    """Processor time of all processes of the run, seen four times a second."""
    growth_bytes: int = 0
    """By how much this process, in place of the web process, grew."""
    body: dict[str, Any] = field(default_factory=dict)
    snapshot: Path = Path()


def _descendants(process: int) -> Iterator[int]:
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in listed.read_text().split():
                yield int(child)
                yield from _descendants(int(child))


def _kind(process: int, own_command: bytes) -> str:
    """Return what a process of the run is; "export" for a forked copy of this one, which has its command."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        if command == own_command:
            return "export"
        parts = command.split(b"\0")
        return "JVM" if parts[0].endswith(b"java") else "workers" if b"pyspark.daemon" in parts else "driver"
    return "driver"


def _memory(process: int, kind: str) -> int:
    """Return what a process adds to the used memory: for a forked copy of this one, only what it has copied."""
    with contextlib.suppress(OSError):
        names = ("Private_Clean:", "Private_Dirty:") if kind == "export" else ("Pss:",)
        rows = [line.split() for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()]
        return sum(int(row[1]) * 1024 for row in rows if row[0] in names)
    return 0


def _cpu_s(process: int) -> float:
    """Return the processor time of a process so far, 0 if it has ended."""
    with contextlib.suppress(OSError):
        user, system = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Watch:
    """Watches the memory of the run's processes and the turns of the event loop."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._memory, daemon=True)

    def _memory(self) -> None:
        own_command, before = Path("/proc/self/cmdline").read_bytes(), _resident()
        cpu_s: dict[int, float] = {}
        while not self._done.wait(0.25):
            found: Counter[str] = Counter()
            for process in set(_descendants(os.getpid())):
                kind = _kind(process, own_command)
                found[kind] += _memory(process, kind)
                cpu_s[process] = _cpu_s(process) or cpu_s.get(process, 0.0)
            self._measured.cpu_s = sum(cpu_s.values())
            if found.total() > self._measured.memory_bytes:
                self._measured.memory_bytes, self._measured.memory_at_peak = found.total(), dict(found)
            self._measured.growth_bytes = max(self._measured.growth_bytes, _resident() - before)

    async def _turns(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            self._measured.slowest_turn_s = max(self._measured.slowest_turn_s, time.perf_counter() - began)
            await asyncio.sleep(0.002)

    async def __aenter__(self) -> None:
        self._thread.start()
        self._task = asyncio.create_task(self._turns())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self._done.set()
        await asyncio.to_thread(self._thread.join)


class Reports:
    """A database and a folder of reports, new at first."""

    def __init__(self, folder: Path) -> None:
        self._image: MetadataImage = MetadataImage.EMPTY
        self._database = Database(f"sqlite:///{folder}/benchmark.db")
        upgrade(self._database.engine)
        settings = ReportSettings(folder=folder / "reports")
        self._runner = ReportRunner(self._database, settings, lambda: (self._image, "benchmark-cluster"))

    def make(self, image: MetadataImage) -> Measured:
        """Make a report of an image."""
        self._image = image
        return asyncio.run(self._make())

    async def _make(self) -> Measured:
        measured = Measured()
        async with _Watch(measured), asyncio.timeout(WAIT_S):
            began = last = time.perf_counter()
            run_id, name = await self._runner.run_now("benchmark"), "starting Python"
            while True:
                run = await self._database.read(store.get_run, run_id)
                assert run is not None
                now = "storing" if run.state == "storing" else (self._runner.progress(run_id) or {}).get("name", name)
                if now != name or run.finished_at is not None:
                    measured.stages[name] = time.perf_counter() - last
                    name, last = now, time.perf_counter()
                if run.finished_at is not None:
                    break
                await asyncio.sleep(0.05)
            measured.seconds = time.perf_counter() - began
        assert run.state == "succeeded", f"{run.error}\n{self._runner.log_tail(run_id)[-3000:]}"
        assert run.result is not None
        measured.body, measured.snapshot = run.result["body"], self._runner.folder_of(run_id) / "snapshot"
        await self._runner.stop()
        return measured

    def close(self) -> None:
        """Close the database."""
        self._database.close()


@contextlib.contextmanager
def _reports() -> Iterator[Reports]:
    with tempfile.TemporaryDirectory(prefix="conclave-bench-") as folder:
        reports = Reports(Path(folder))
        try:
            yield reports
        finally:
            reports.close()


def _figure(name: str, unit: str, value: float, budget: float | None = None) -> Figure:
    figure = Figure(name, unit, budget)
    figure.add(OURS, value)
    return figure


def _figures(name: str, measured: Measured, budget_s: float, memory_mb: float | None = None) -> list[Figure]:
    return [
        _figure(f"{name}: end to end", "s", measured.seconds, budget_s),
        *(_figure(f"{name}: {stage}", "s", seconds) for stage, seconds in measured.stages.items()),
        _figure(f"{name}: processor time", "s", measured.cpu_s),
        _figure(f"{name}: memory of its processes", "MB", measured.memory_bytes / MB, memory_mb),
        *(
            _figure(f"{name}: of it the {kind}", "MB", found / MB)
            for kind, found in sorted(measured.memory_at_peak.items())
        ),
        _figure(f"{name}: growth of the web process", "MB", measured.growth_bytes / MB, 50),
        _figure(f"{name}: slowest turn of the web process", "ms", measured.slowest_turn_s * 1000, 200),
    ]


def _rivals(name: str, measured: Measured) -> Figure:
    """Measure programs that compute some of the report's numbers from its snapshot, and compare the numbers."""
    figure = Figure(f"{name}: end to end; the others: its replicas, leaders and verdicts", "s", sides=RIVALS)
    figure.add(OURS, measured.seconds)
    for side in (DUCKDB, POLARS):
        command = [sys.executable, "-m", "benchmarks.report_rivals", side.name, str(measured.snapshot)]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=True)
        figure.add(side, time.perf_counter() - began)
        assert json.loads(done.stdout) == expected(measured.body, measured.snapshot), f"{side.name} differs"
    return figure


def report_small(plan: Plan) -> list[Figure]:
    """Measure the first two reports of a new installation with 30 partitions."""
    del plan  # one size
    image, name = synthetic_image(10, 3, 3), "report, 30 partitions"
    with _reports() as reports:
        first = reports.make(image)
        return [
            *_figures(f"{name}, the first", first, 8),
            _rivals(f"{name}, the first", first),
            *_figures(f"{name}, the second", reports.make(image), 8)[:1],
        ]


def report_million(plan: Plan) -> list[Figure]:
    """Measure a report of 1,000,000 partitions (fewer with --quick)."""
    return _large(plan, 100, 30)


def report_ten_million(plan: Plan) -> list[Figure]:
    """Measure a report of 10,000,000 partitions (fewer with --quick)."""
    return _large(plan, 1000, 60, 2000)


def report_dead_rack(plan: Plan) -> list[Figure]:
    """Measure a report of 10,000,000 partitions at random places, with the brokers of a rack fenced."""
    return _large(plan, 1000, 60, 2000, " at random places, a rack down", dead_rack=0, scattered=True)


def _large(
    plan: Plan,
    partitions: int,
    budget_s: float,
    memory_mb: float | None = None,
    what: str = "",
    dead_rack: int | None = None,
    *,
    scattered: bool = False,
) -> list[Figure]:
    each = plan.count(partitions)
    name = f"report, {TOPICS * each:,} partitions{what}"
    with _reports() as reports:
        measured = reports.make(synthetic_image(TOPICS, each, dead_rack=dead_rack, scattered=scattered))
        return [*_figures(name, measured, budget_s, memory_mb), _rivals(name, measured)]


def plans(plan: Plan) -> list[Figure]:
    """Measure plans for 1,000,000 partitions (fewer with --quick)."""
    each = plan.count(100)
    return placement_plans(synthetic_image(TOPICS, each), TOPICS * each)
