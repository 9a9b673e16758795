"""Work that a web process does before its first visitor."""

from pathlib import Path

from app.pages.frame import environment
from tests.app.live import running_web


def test_templates_are_compiled_before_the_first_request(tmp_path: Path) -> None:
    environment.cache_clear()
    with running_web(tmp_path, "127.0.0.1:1"):  # nothing listens on port 1: the web process starts without a quorum
        compiled = environment().cache
        assert compiled is not None
        assert len(compiled) == len(environment().list_templates())
