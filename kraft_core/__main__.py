"""`python -m kraft_core FILE`: run a node with a server.properties file, without the web process and its packages."""

import sys
from pathlib import Path

from kraft_core.kafka_raft_server import run_node
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.server.log_format import configure_logging


def main(arguments: list[str]) -> int:
    """Run the node; return 0 after an orderly stop, 1 after a failure, 2 for wrong usage."""
    if len(arguments) != 1:
        print("usage: python -m kraft_core FILE", file=sys.stderr)  # noqa: T201  # a command's own words
        return 2
    configure_logging()
    try:
        config = KafkaConfig.load(Path(arguments[0]))
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201  # a command's own words
        return 1
    return run_node(config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
