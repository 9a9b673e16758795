"""The Spark session of the report job, for every kind of master.

Settings come from three sources, the later overriding the earlier: what the job chooses for a run of this size, the
folder of the event log, and `spark_conf` of the configuration.
"""

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.reports.failures import MasterUnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_PARTITIONS: Final = 100_000
SMALL_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LARGE_JVM: Final = "-XX:+UseParallelGC"
DEFAULT_PORTS: Final = {"spark": "7077", "sc": "15002"}
CONNECT_SECONDS: Final = 10.0
HADOOP: Final = "spark.hadoop."


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How to start Spark.

    `master`: local[*], spark://…, yarn, k8s://…, or sc://… for Spark Connect. `memory` is the driver's heap. `conf` has
    Spark's own settings by name, from the configuration. `events` is an existing folder for Spark's event log, None for
    no event log.
    """

    master: str = "local[*]"
    memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)
    events: Path | None = None

    @property
    def is_local(self) -> bool:
        """True if Spark runs in the JVM of this process alone."""
        return self.master.startswith("local")

    @property
    def is_connect(self) -> bool:
        """True if Spark runs behind a Spark Connect server, so that this process needs no JVM."""
        return self.master.startswith("sc://")


def _settings(options: SessionOptions, partitions: int, java_options: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": options.memory,
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if options.is_local:
        small = partitions <= SMALL_PARTITIONS
        fitted = SMALL_JVM if small else LARGE_JVM
        if small:  # adaptive execution joins partitions of a shuffle afterwards, but each costs a task's output first
            settings["spark.sql.adaptive.coalescePartitions.initialPartitionNum"] = "8"
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.extraJavaOptions"] = f"{fitted} {java_options}".strip()
    if options.events is not None:
        settings["spark.eventLog.enabled"] = "true"
        settings["spark.eventLog.dir"] = options.events.resolve().as_uri()
        settings["spark.eventLog.compress"] = "true"
        settings["spark.eventLog.rolling.enabled"] = "false"
    return settings


def check_master(master: str) -> None:
    """Connect once to a master of spark:// (any of several) or sc://. Spark itself would try for a minute and more.

    Raises MasterUnreachableError. Other masters are not checked.
    """
    scheme, separator, rest = master.partition("://")
    if not separator or scheme not in DEFAULT_PORTS:
        return
    refused = ""
    for address in rest.partition("/")[0].split(","):
        host, _, port = (
            address.rpartition(":") if re.search(r":\d+$", address) else (address, "", DEFAULT_PORTS[scheme])
        )
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            refused = f"{refused}; {address}: {error}" if refused else f"{address}: {error}"
        else:
            return
    raise MasterUnreachableError(f"Spark's master '{master}' cannot be reached ({refused}): see spark_master.")


@contextmanager
def spark_session(options: SessionOptions, partitions: int = 0, java_options: str = "") -> Iterator["SparkSession"]:
    """Return a session for a report of this many partitions, and stop it at the end of the block.

    A local JVM is tuned to the number of partitions. A small report ends before the second compiler pays off, which
    takes half of the processor time; a large one gets faster by it. A Connect server has its own settings; of `conf`,
    it gets the ones that a session may set. Raises MasterUnreachableError.
    """
    check_master(options.master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("conclave placement report")
    builder = builder.remote(options.master) if options.is_connect else builder.master(options.master)
    settings = {} if options.is_connect else _settings(options, partitions, java_options)
    for key, value in {**settings, **options.conf}.items():
        is_hadoop = options.is_connect and key.startswith(HADOOP)  # a server reads the session's without the prefix
        builder = builder.config(key.removeprefix(HADOOP) if is_hadoop else key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
