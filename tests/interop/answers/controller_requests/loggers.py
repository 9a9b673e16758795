"""Log levels of the controller; `root` is the one logger that both programs have."""

from collections.abc import Iterator

from kraft_core.protocol.messages import IncrementalAlterConfigsRequest
from tests.interop.answers.controller_requests.case import (
    APPEND,
    BROKER_LOGGER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    Case,
    fixed,
)
from tests.interop.answers.controller_requests.configs import incremental, legacy
from tests.interop.answers.controller_requests.describe import settings_of

CHANGES: tuple[tuple[str, tuple[tuple[str, int, str | None], ...]], ...] = (
    ("1", (("root", SET, "WARN"),)),
    ("1", (("root", SET, "info"),)),
    ("1", (("root", SET, "LOUD"),)),
    ("1", (("root", DELETE, None),)),
    ("1", (("root", APPEND, "INFO"),)),
    ("1", (("root", SUBTRACT, "INFO"),)),
    ("1", (("no.such.logger", SET, "INFO"),)),
    ("1", (("no.such.logger", DELETE, None),)),
    ("1", (("root", SET, "ERROR"), ("no.such.logger", SET, "INFO"))),
    ("1", ()),
    ("2", (("root", SET, "INFO"),)),
    ("", (("root", SET, "INFO"),)),
    ("one", (("root", SET, "INFO"),)),
    ("-1", (("root", SET, "INFO"),)),
)


def logger_requests() -> Iterator[Case]:
    """Return IncrementalAlterConfigs, AlterConfigs and DescribeConfigs of loggers."""
    for version in range(2):
        for name, changes in CHANGES:
            yield fixed(f"level {name!r} {changes}", incremental(BROKER_LOGGER, name, *changes), version)
            yield fixed("level of root", settings_of((BROKER_LOGGER, "1"), keys=("root",)), 4)
    only = incremental(BROKER_LOGGER, "1", ("root", SET, "FATAL"), validate_only=True)
    yield fixed("level, only to see", only, 1)
    yield fixed("level of root after that", settings_of((BROKER_LOGGER, "1"), keys=("root",)), 4)
    level = incremental(BROKER_LOGGER, "1", ("root", SET, "INFO")).resources
    retention = incremental(TOPIC, "made-2", ("retention.ms", SET, "77")).resources
    wrong = incremental(TOPIC, "made-2", ("retention.ms", SET, "soon")).resources
    for name, resources in (("and a setting", level + retention), ("and a wrong setting", wrong + level)):
        yield fixed(f"level {name}", IncrementalAlterConfigsRequest(resources=resources), 1)
    yield fixed("the same level twice", IncrementalAlterConfigsRequest(resources=level + level), 1)
    yield fixed("levels replaced", legacy(BROKER_LOGGER, "1", root="INFO"), 2)
    yield fixed("levels of another node replaced", legacy(BROKER_LOGGER, "2", root="INFO"), 2)
