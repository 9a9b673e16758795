"""What `make setup` compiles for reports."""

import importlib.util

from app.reports.bytecode import MODULES


def test_the_modules_to_compile_exist() -> None:
    assert [name for name in MODULES if importlib.util.find_spec(name) is None] == []
