"""The lock files hold what pyproject.toml asks for, each package with its hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"run": ["spark"], "test": ["spark", "dev"]}
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def wanted(lock: str) -> list[Requirement]:
    """What pyproject.toml asks for, and what builds the project."""
    build = [line for line in (ROOT / "requirements" / "build.in").read_text().splitlines() if line[:1].isalnum()]
    extras = [line for name in EXTRAS[lock] for line in PROJECT["optional-dependencies"][name]]
    return [Requirement(line) for line in (*PROJECT["dependencies"], *extras, *build)]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", EXTRAS)
def test_a_lock_file_pins_every_requirement_to_a_version_that_it_allows(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    pinned = {normal(name): version for name, version in PINNED.findall(text)}
    wrong = [
        f"{each}: {pinned.get(normal(each.name), 'missing')} in requirements/{lock}.txt; run make lock"
        for each in wanted(lock)
        if not each.specifier.contains(pinned.get(normal(each.name), "0"), prereleases=True)
        or normal(each.name) not in pinned
    ]
    assert wrong == []


@pytest.mark.parametrize("lock", EXTRAS)
def test_every_pinned_package_has_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    packages = re.split(r"\n(?=[a-z0-9])", text)
    assert [each.splitlines()[0] for each in packages if "--hash=sha256:" not in each] == []
    assert "://" not in text


def test_tests_run_with_the_versions_that_users_run() -> None:
    run, test = (dict(PINNED.findall((ROOT / "requirements" / f"{name}.txt").read_text())) for name in ("run", "test"))
    assert run.items() <= test.items()
