"""python -m tests.simulator --seed N [--trace] | --seeds N [--start S] [--jobs J]"""

import sys

from tests.simulator.scenario import Scenario
from tests.simulator.seed_runner import SeedRunner

RUNNER = SeedRunner("tests.simulator", Scenario)

if __name__ == "__main__":
    sys.exit(RUNNER.main())
