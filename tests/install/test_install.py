"""What a newcomer does: a fresh clone and its two commands, and a wheel that is installed somewhere else."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.product import running_product

ROOT = Path(__file__).resolve().parents[2]
CLEAN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def clean_environment(home: Path) -> dict[str, str]:
    """As on a machine where nothing was ever done: an empty home, and the way out to the package index.

    Packages that were downloaded before are used, which saves minutes: CI itself begins without any.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_")) or name.endswith("_proxy")
    }
    python = Path(sys.base_prefix) / "bin"
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{python}:{CLEAN_PATH}",
        "LANG": "C.UTF-8",
        "PIP_CACHE_DIR": cache,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def fresh_clone(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return a clone of the project, and the environment for its commands."""
    home, clone = folder / "home", folder / "conclave"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    return clone, clean_environment(home)


@pytest.mark.timeout(1_500)
def test_a_fresh_clone_runs_the_product(tmp_path: Path) -> None:
    clone, environment = fresh_clone(tmp_path)
    with running_product(clone, ("make", "--silent", "run"), environment, start_seconds=1_200) as product:
        status, made = product.call("POST", f"{product.cluster_path}/topics", {"topic_name": "first"})
        assert status == 201, made


@pytest.mark.slow  # CI is itself a fresh clone that runs `make test`
@pytest.mark.timeout(1_500)
def test_a_fresh_clone_runs_the_tests(tmp_path: Path) -> None:
    clone, environment = fresh_clone(tmp_path)
    command = ["make", "test", "TESTS=tests/protocol/test_uuids.py"]
    quick = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert quick.returncode == 0, quick.stdout[-3000:] + quick.stderr[-3000:]
    assert " passed" in quick.stdout.splitlines()[-1]


def test_an_installed_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    wheels, installed, elsewhere = tmp_path / "wheels", tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("conclave-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "app/_templates/base.html",
        "app/_static/app.css",
        "app/_migrations/env.py",
        "kraft_core/node.py",
        "conclave/testing/cluster.py",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(installed), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    where = subprocess.run(
        [
            sys.executable,
            "-c",
            "import app, conclave, kraft_core; print(app.__file__, conclave.__file__, kraft_core.__file__)",
        ],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(path.startswith(str(installed)) for path in where.stdout.split()), where.stdout
    with running_product(elsewhere, (sys.executable, "-m", "app.cli.main", "up"), environment) as product:
        assert product.call("POST", f"{product.cluster_path}/topics", {"topic_name": "from-a-wheel"})[0] == 201
        with_style = product.read("/login")
        assert "/static/app.css?v=" in with_style
