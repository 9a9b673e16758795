"""`conclave …` within the test's process, which saves the start of a process for each command."""

import os
from dataclasses import dataclass

import pytest

from app.cli.main import main


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    code: int
    output: str
    complaint: str


def conclave(capfd: pytest.CaptureFixture[str], *arguments: object) -> Outcome:
    """Run a command to its end."""
    umask = os.umask(0o077)
    try:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    finally:
        os.umask(umask)
    output, complaint = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return Outcome(ended.value.code, output, complaint)
