"""python -m tests.clients.simulator --seed N [--trace] | --seeds N [--start S] [--jobs J]"""

import sys

from tests.clients.simulator.scenario import Scenario
from tests.simulator.seed_runner import SeedRunner

RUNNER = SeedRunner("tests.clients.simulator", Scenario)

if __name__ == "__main__":
    sys.exit(RUNNER.main())
