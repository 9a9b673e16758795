"""The progress of a report job: its stages and Spark's tasks, in `progress.json` for the web process."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from app.texts import phrase
from kraft_core.storage.files import Sync, replace_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAGES: Final = (
    str(phrase("starting Spark")),
    str(phrase("reading the snapshot")),
    str(phrase("counting partitions")),
    str(phrase("counting replicas and leaders")),
    str(phrase("losing each rack")),
    str(phrase("losing pairs of brokers")),
    str(phrase("listing violations")),
    str(phrase("counting topics and leaders")),
    str(phrase("making the default plan")),
    str(phrase("reading the lake")),
    str(phrase("writing the report")),
)


class Progress:
    """The progress of the run, written for the web process twice a second by a thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "progress.json"
        self._stage = 0
        self._spark: SparkSession | None = None
        self._remote = 0, 0  # tasks of a Spark Connect server: done, all
        self._asking = threading.Lock()
        self._news = threading.Event()
        self._done = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    @contextmanager
    def watching(self, spark: "SparkSession") -> Iterator[None]:
        """Count the tasks of this session until the end of the block."""
        if getattr(spark, "sparkContext", None) is None:  # Spark Connect, which has no contexts
            spark.registerProgressHandler(cast("Any", self._on_progress))
            yield
            return
        self._spark = spark
        try:
            yield
        finally:
            with self._asking:
                self._spark = None

    def _on_progress(self, stages: Iterable[Any] | None, **_: object) -> None:
        found = list(stages or ())
        self._remote = sum(stage.num_completed_tasks for stage in found), sum(stage.num_tasks for stage in found)

    def stage(self, name: str) -> None:
        """Note that a stage of STAGES starts."""
        self._stage = STAGES.index(name)
        self._news.set()

    def _tasks(self) -> tuple[int, int]:
        if self._spark is None:
            return self._remote
        tracker = self._spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [info for info in infos if info is not None]
        return sum(info.numCompletedTasks for info in running), sum(info.numTasks for info in running)

    def _write(self) -> None:
        with self._asking:
            done, total = self._tasks()
        state = {
            "stage": self._stage + 1,
            "stages": len(STAGES),
            "name": STAGES[self._stage],
            "tasks_done": done,
            "tasks": total,
        }
        with suppress(OSError):  # a full disk ends the report where it matters
            replace_file(self._path, json.dumps(state).encode(), sync=Sync.NONE)

    def _run(self) -> None:
        while not self._done:
            self._write()
            self._news.wait(0.5)
            self._news.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._news.set()
        self._thread.join()
