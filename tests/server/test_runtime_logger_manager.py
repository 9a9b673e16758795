"""A node's log levels at run time."""

import logging
from collections.abc import Iterator

import pytest

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraft_core.server.runtime_logger_manager import LEVELS, RuntimeLoggerManager

SET, DELETE, APPEND, SUBTRACT = range(4)
HERE = "kraft_core.server.runtime_logger_manager"
PACKAGE = "kraft_core.server"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in (None, "kraft_core", PACKAGE, HERE)}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def alter(*changes: tuple[str, int, str | None], node: str = "1", validate_only: bool = False) -> dict[str, str]:
    """Change levels and return the effective ones."""
    manager = RuntimeLoggerManager(1)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=8,
        resource_name=node,
        configs=tuple(
            IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ),
    )
    manager.alter(resource, validate_only=validate_only)
    return manager.levels()


def refusal(*changes: tuple[str, int, str | None], node: str = "1") -> ErrorCode:
    before = RuntimeLoggerManager(1).levels()
    with pytest.raises(KafkaError) as refused:
        alter(*changes, node=node)
    assert RuntimeLoggerManager(1).levels() == before
    return refused.value.code


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_level_that_was_set_is_effective_and_listed(level: str) -> None:
    assert alter((HERE, SET, level))[HERE] == level
    assert logging.getLogger(HERE).isEnabledFor(LEVELS[level])
    assert not logging.getLogger(HERE).isEnabledFor(LEVELS[level] - 1)


def test_a_logger_without_a_level_inherits_its_parents() -> None:
    assert alter((PACKAGE, SET, "ERROR"))[HERE] == "ERROR"
    assert alter((HERE, SET, "DEBUG"))[PACKAGE] == "ERROR"
    assert alter((HERE, DELETE, None))[HERE] == "ERROR"
    assert alter(("root", SET, "WARN"), (PACKAGE, DELETE, None), ("kraft_core", DELETE, None))[HERE] == "WARN"


def test_only_our_loggers_and_the_root_can_be_altered() -> None:
    levels = RuntimeLoggerManager(1).levels()
    assert {"root", "kraft_core", PACKAGE, HERE} <= set(levels)
    assert all(name == "root" or name.split(".")[0] == "kraft_core" for name in levels)
    assert refusal(("asyncio", SET, "DEBUG")) == ErrorCode.INVALID_CONFIG
    assert refusal(("kraft_core.no.such", SET, "DEBUG")) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((HERE, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ((HERE, SET, None), ErrorCode.INVALID_CONFIG),
        ((HERE, SET, "debug"), ErrorCode.INVALID_CONFIG),
        ((HERE, APPEND, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ((HERE, SUBTRACT, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ((HERE, 9, "DEBUG"), ErrorCode.INVALID_REQUEST),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_one_invalid_change_prevents_all(change: tuple[str, int, str | None], code: ErrorCode) -> None:
    assert refusal((PACKAGE, SET, "ERROR"), change) == code


@pytest.mark.parametrize("node", ["2", "", "one", "1.0"])
def test_loggers_of_another_node_are_refused(node: str) -> None:
    assert refusal((HERE, SET, "DEBUG"), node=node) == ErrorCode.INVALID_REQUEST


def test_a_dry_run_changes_nothing() -> None:
    before = RuntimeLoggerManager(1).levels()
    assert alter((HERE, SET, "FATAL"), validate_only=True) == before
