"""A real PostgreSQL server for tests that stop, pause and restart it."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.interop import kafka

POSTGRESQL = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    found = sorted(POSTGRESQL.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def as_somebody() -> dict[str, object]:
    """PostgreSQL refuses to run as root, so it runs as the user nobody, or as postgres where that exists."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("no unprivileged user to run PostgreSQL as")


class PostgreSql:
    """One server. `url` is that of an empty database after `fresh`."""

    def __init__(self, folder: Path, bin_dir: Path, owner: dict[str, object]) -> None:
        self._folder, self._bin, self._owner = folder, bin_dir, owner
        (self.port,) = kafka.free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        initdb = [str(bin_dir / "initdb"), "-D", str(folder / "data"), "-U", "conclave", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*initdb, "--no-sync", "--locale=C"], check=True, capture_output=True, cwd=folder, **owner)  # type: ignore[call-overload]  # numbers and a list

    @property
    def url(self) -> str:
        return f"postgresql://conclave@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = ["-D", str(self._folder / "data"), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), *options, "-F"],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                **self._owner,  # type: ignore[arg-type]  # numbers and a list
            )
        ready = [str(self._bin / "pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)]
        kafka.wait_until(lambda: subprocess.run(ready, capture_output=True).returncode == 0, 90, "PostgreSQL answers")

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)  # ends the remaining sessions; SIGTERM would wait for them
        self._process.wait(60)

    def pause(self) -> None:
        """Pause the server and all its sessions: they keep their connections and answer nothing."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self._process.pid)], capture_output=True, text=True
        )
        for pid in [self._process.pid, *map(int, children.stdout.split())]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def fresh(self) -> str:
        """Empty the database and return its URL."""
        engine = create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        engine.dispose()
        return self.url


@contextlib.contextmanager
def postgresql_server() -> Iterator[PostgreSql]:
    """A running server. Skips without PostgreSQL, except in CI, where it fails."""
    bin_dir = programs()
    if bin_dir is None:
        if os.environ.get("CI") == "true":
            pytest.fail("PostgreSQL is missing (apt install postgresql)")
        pytest.skip("PostgreSQL is missing (apt install postgresql)")
    owner = as_somebody()
    folder = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    if owner:
        os.chown(folder, owner["user"], owner["group"])  # type: ignore[arg-type]  # both are numbers here
    folder.chmod(0o755)
    server = PostgreSql(folder, bin_dir, owner)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
