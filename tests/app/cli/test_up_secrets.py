"""`conclave up` protects its data: modes of its files, and the processes that get the admin token."""

import os
import stat
from pathlib import Path

from app.cli.up import rotate_log
from tests.app.cli.test_up import command_line, wait_until
from tests.product import TOKEN, Product, running_product

JAVA = """#!/bin/sh
env > {folder}/env.$$
echo 'openjdk version "21.0.1"' >&2
"""
"""A Java that records its environment, and fails when it is to run anything."""


def open_to_others(folder: Path) -> list[str]:
    """Return everything in a folder, itself included, that other users of the machine could read, write or enter."""
    found = [folder, *folder.rglob("*")]
    modes = [(path, stat.S_IMODE(path.lstat().st_mode)) for path in found if not path.is_symlink()]
    return [f"{mode:o} {path}" for path, mode in modes if mode & 0o077]


def environments(product: Product) -> dict[str, bytes]:
    """Return the environment of every process below the product, by its command."""
    found = {}
    for each in Path("/proc").iterdir():
        words = command_line(int(each.name)) if each.name.isdigit() else []
        if "app.cli.main" in words and str(product.folder / "data") in " ".join(words):
            found[words[words.index("app.cli.main") + 1]] = (each / "environ").read_bytes()
    return found


def test_no_file_is_readable_by_others_and_no_child_gets_the_admin_token(tmp_path: Path) -> None:
    java_home = tmp_path / "java"
    (java_home / "bin").mkdir(parents=True)
    (java_home / "bin" / "java").write_text(JAVA.format(folder=tmp_path))
    (java_home / "bin" / "java").chmod(0o755)
    before = os.umask(0o022)
    try:
        environment = {**os.environ, "CONCLAVE_JAVA_HOME": str(java_home)}
        with running_product(tmp_path, environment=environment) as product:
            topic = {"topic_name": "private", "partitions_count": 2}
            assert product.call("POST", f"{product.cluster_path}/topics", topic)[0] == 201
            assert product.call("POST", f"{product.cluster_path}/reports:run", {})[0] == 202
            wait_until(lambda: len(list(tmp_path.glob("env.*"))) >= 2, "Java was asked for its version and started")
            assert open_to_others(tmp_path / "data") == []
            seen = environments(product)
            assert TOKEN.encode() in seen["up"], "the token is where this test looks for it"
            assert TOKEN.encode() not in seen["node"]
        written = [path.read_text() for path in tmp_path.glob("env.*")]
        assert all("PATH=" in each for each in written)
        assert not any(TOKEN in each or "CONCLAVE_ADMIN_TOKEN" in each for each in written)
        assert open_to_others(tmp_path / "data") == []
    finally:
        os.umask(before)


def test_a_log_that_has_grown_is_rotated_and_only_a_few_are_kept(tmp_path: Path) -> None:
    """The child keeps writing to its open file, so the file is copied and truncated."""
    path = tmp_path / "web.log"
    with path.open("ab", buffering=0) as child:
        for number in range(8):
            child.write(b"%d" % number * 100)
            rotate_log(path, bytes_max=50, kept=3)
            assert path.stat().st_size == 0
        child.write(b"last")
    assert path.read_bytes() == b"last"
    assert [(tmp_path / f"web.log.{number}").read_bytes()[:1] for number in (1, 2, 3)] == [b"7", b"6", b"5"]
    assert len(list(tmp_path.iterdir())) == 4
    rotate_log(path, bytes_max=50, kept=3)
    assert path.read_bytes() == b"last", "a small log stays as it is"
