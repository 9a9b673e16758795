"""RuntimeLoggerManager: a node's log levels at run time, the resource BROKER_LOGGER of `kafka-configs`.

Loggers have the names of packages and modules, e.g. `kraft_core.raft.internals.election`; one without a level inherits
that of its parent. Levels have Kafka's names. Changes are not stored: a restart resets them.
Source: RuntimeLoggerManager, LoggingController, LogLevelConfig, Kafka 4.3.1; KIP-412, KIP-1106.
"""

import logging
import re
from typing import Final

from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

log = logging.getLogger(__name__)

ROOT_LOGGER: Final = "root"
LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG - 5,
    "WARN": logging.WARNING,
}
_PACKAGE: Final = "kraft_core"


class RuntimeLoggerManager:
    """The loggers of one node."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def levels(self) -> dict[str, str]:
        """Return the effective level of each logger, by name."""
        names = {_PACKAGE, *(each for each in logging.root.manager.loggerDict if each.startswith(f"{_PACKAGE}."))}
        loggers = {ROOT_LOGGER: logging.root, **{name: logging.getLogger(name) for name in sorted(names)}}
        return {name: _name_of(logger.getEffectiveLevel()) for name, logger in loggers.items()}

    def alter(self, resource: IncrementalAlterConfigsRequestAlterConfigsResource, *, validate_only: bool) -> None:
        """Set and delete levels, all or none.

        Raises KafkaError: INVALID_REQUEST for another node, an operation other than SET and DELETE, or a deletion of
        the root logger's level; INVALID_CONFIG for an unknown logger or level.
        """
        self._check_node(resource.resource_name)
        known = self.levels()
        for config in resource.configs:
            _check(config, known)
        if validate_only:
            return
        for config in resource.configs:
            level = LEVELS[config.value or ""] if config.config_operation == AlterConfigOp.SET else logging.NOTSET
            logging.getLogger(None if config.name == ROOT_LOGGER else config.name).setLevel(level)
            log.warning("log_level_changed", extra={"changed_logger": config.name, "level": config.value or "unset"})

    def _check_node(self, name: str) -> None:
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", name):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        if int(name) != self._node_id:
            message = f"Unexpected node id. Expected {self._node_id}, but received {int(name)}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check(config: IncrementalAlterConfigsRequestAlterableConfig, known: dict[str, str]) -> None:
    operation, name = config.config_operation, config.name
    if operation in {AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT}:
        word = AlterConfigOp(operation).name
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource")
    if operation not in {AlterConfigOp.SET, AlterConfigOp.DELETE}:
        message = f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == AlterConfigOp.SET and config.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    if operation == AlterConfigOp.DELETE and name == ROOT_LOGGER:
        message = "Removing the log level of the root logger is not allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _name_of(level: int) -> str:
    """Return Kafka's name of the highest level not above this number; TRACE if there is none."""
    return max((each, name) for name, each in LEVELS.items() if each <= max(level, LEVELS["TRACE"]))[1]
