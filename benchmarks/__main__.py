"""`python -m benchmarks [NAME …] [--quick] [--ours] [--json FILE]`: measure and print a table with ratios and budgets.

Exit codes: 0 measured (even if a budget is missed), 1 a benchmark failed, 2 invalid arguments. See docs/benchmarks.md.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker_failure import broker_failure
from benchmarks.clients import clients
from benchmarks.failover import failover
from benchmarks.figures import Condition, Figure, table, write_json
from benchmarks.other_requests import config_changes, heartbeats, log_read
from benchmarks.pages import pages
from benchmarks.plan import FULL, QUICK, Plan
from benchmarks.raft import raft_latency, raft_throughput
from benchmarks.report import plans, report_dead_rack, report_million, report_small, report_ten_million
from benchmarks.rest import rest
from benchmarks.sides import JVM_OPTIONS, missing_for_apache
from benchmarks.start_up import memory, restart, start_up
from benchmarks.topic_creation import latency, throughput
from benchmarks.topic_deletion import deletion


@contextmanager
def installed_bytecode() -> Iterator[None]:
    """Compile bytecode for our nodes and reports, as an installation does, even where the environment disables it."""
    with tempfile.TemporaryDirectory(prefix="conclave-bench-") as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        subprocess.run([sys.executable, "-c", "import kraft_core.__main__, app.web"], check=True)
        subprocess.run([sys.executable, "-m", "app.reports.bytecode"], check=True)
        yield


BENCHMARKS: dict[str, Callable[[Plan], list[Figure]]] = {
    "raft-latency": raft_latency,
    "raft-throughput": raft_throughput,
    "latency": latency,
    "throughput": throughput,
    "deletion": deletion,
    "configs": config_changes,
    "heartbeats": heartbeats,
    "failover": failover,
    "broker-failure": broker_failure,
    "startup": start_up,
    "memory": memory,
    "restart": restart,
    "log": log_read,
    "report-small": report_small,
    "report-1m": report_million,
    "report-10m": report_ten_million,
    "report-10m-dead-rack": report_dead_rack,
    "plans": plans,
    "pages": pages,
    "rest": rest,
    "clients": clients,
}
GROUPS = {"report": [name for name in BENCHMARKS if name.startswith("report-")]}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ours and Apache Kafka's side by side.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join([*BENCHMARKS, *GROUPS])}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="one round and a quarter of the requests")
    parser.add_argument("--ours", action="store_true", help="measure only ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every result to this file")
    options = parser.parse_args(arguments)
    names = [name for given in options.names for name in GROUPS.get(given, [given])]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; allowed: {', '.join([*BENCHMARKS, *GROUPS])}")
    missing = None if options.ours else missing_for_apache()
    if missing is not None:
        print(f"Apache Kafka is left out: {missing}", file=sys.stderr)
    plan = dataclasses.replace(QUICK if options.quick else FULL, has_apache=not options.ours and missing is None)
    print(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    figures: list[Figure] = []
    conditions: list[Condition] = []
    with installed_bytecode():
        for name in names or BENCHMARKS:
            began, before = time.monotonic(), os.getloadavg()[0]
            found = BENCHMARKS[name](plan)
            condition = Condition(name, before, os.getloadavg()[0], time.monotonic() - began)
            print(f"{condition}\n{table(found)}", file=sys.stderr)
            figures += found
            conditions.append(condition)
            if options.json is not None:  # keep the results so far if a later benchmark fails
                write_json(options.json, figures, conditions, JVM_OPTIONS if plan.has_apache else ())
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
