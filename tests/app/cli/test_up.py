"""`conclave up`: one folder and two children, none of which is left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import up as cli_up
from app.cli.up import Child, UpError, UpOptions, prepare_data, run_up
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.storage.folder_lock import FolderLock
from kraft_core.storage.meta_properties import read_meta_properties
from tests.interop import kafka

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)\n"
)


def wait_until(condition: Callable[[], object], what: str) -> None:
    kafka.wait_until(condition, 60, what, 0.02)


def options(data: Path, **changes: object) -> UpOptions:
    ports = dict(zip(("http_port", "kafka_port", "controller_port"), kafka.free_ports(3), strict=True))
    return UpOptions(**{"data": data, **ports, **changes})  # type: ignore[arg-type]  # mixed values by keyword


def command_line(pid: int) -> list[str]:
    """Return the command line of a process, None when it is gone or waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    except OSError:
        return []


def child(folder: Path, name: str, script: str) -> Child:
    return Child(name, [sys.executable, "-c", script], {}, folder / f"{name}.log")


def test_the_first_use_formats_the_folder_and_later_ones_keep_it(tmp_path: Path) -> None:
    chosen = options(tmp_path)
    path = prepare_data(chosen, tmp_path)
    config = KafkaConfig.load(path)
    assert config.process_roles == {"broker", "controller"}
    assert config.broker_listeners[0].port == chosen.kafka_port
    assert config.controller_quorum_bootstrap_servers == (("127.0.0.1", chosen.controller_port),)
    first = read_meta_properties(config.metadata_log_dir)
    assert first is not None
    path.write_text(path.read_text() + "num.partitions=7\n")
    prepare_data(chosen, tmp_path)
    assert read_meta_properties(config.metadata_log_dir) == first
    assert KafkaConfig.load(path).num_partitions == 7
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("web", "logs")} == {0o700}


def test_other_ports_are_applied_and_nothing_else_is_changed(tmp_path: Path) -> None:
    path = prepare_data(options(tmp_path), tmp_path)
    path.write_text(path.read_text() + "num.partitions=7\n")
    moved = options(tmp_path)
    config = KafkaConfig.load(prepare_data(moved, tmp_path))
    assert config.broker_listeners[0].port == moved.kafka_port
    assert config.num_partitions == 7


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "::"])
def test_any_address_to_listen_on_gives_settings_that_a_node_accepts(tmp_path: Path, host: str) -> None:
    config = KafkaConfig.load(prepare_data(options(tmp_path, host=host), tmp_path))
    assert all(listener.host not in {"0.0.0.0", "::"} for listener in config.advertised_broker_listeners)


def test_settings_that_the_user_broke_are_refused(tmp_path: Path) -> None:
    path = prepare_data(options(tmp_path), tmp_path)
    path.write_text(path.read_text() + "num.partitions=0\n")
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        prepare_data(options(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["http", "kafka", "controller"])
def test_a_busy_port_is_one_line_that_names_the_option(tmp_path: Path, name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UpError, match=rf"127\.0\.0\.1:{port}: Address already in use.*--{name}-port"):
            run_up(options(tmp_path, **{f"{name}_port": port}))
    assert not (tmp_path / "server.properties").exists()


def test_one_port_for_two_things_is_refused(tmp_path: Path) -> None:
    (port,) = kafka.free_ports(1)
    with pytest.raises(UpError, match="must differ"):
        run_up(options(tmp_path, http_port=port, kafka_port=port))


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(UpError, match="in use by another"):
        run_up(options(tmp_path))
    lock.release()


def test_a_child_runs_in_its_own_process_group_and_stops_on_request(tmp_path: Path) -> None:
    sleeper = child(tmp_path, "node", SLEEPER)
    sleeper.start()
    assert sleeper.process is not None
    wait_until(lambda: "up" in sleeper.log_file.read_text(), "the child prints")
    assert os.getpgid(sleeper.process.pid) == sleeper.process.pid != os.getpgid(0)
    assert sleeper.exit_code is None
    sleeper.stop()
    assert sleeper.exit_code == -signal.SIGTERM


def test_a_child_that_will_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli_up.STOP_SECONDS, "node", 0.2)
    stubborn = child(tmp_path, "node", STUBBORN)
    stubborn.start()
    wait_until(lambda: "up" in stubborn.log_file.read_text(), "the child prints")
    stubborn.stop()
    assert stubborn.exit_code == -signal.SIGKILL
    assert "is killed" in capsys.readouterr().out


def test_a_child_ends_with_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from app.cli.up import Child; folder = Path(sys.argv[1]); "
        f"child = Child('node', [sys.executable, '-c', {SLEEPER!r}], {{}}, folder / 'node.log'); "
        "child.start(); print(child.process.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        supervisor.kill()
    wait_until(lambda: not command_line(pid), "gone")


def supervised(tmp_path: Path, node: str, web: str) -> cli_up._Supervisor:
    supervisor = cli_up._Supervisor(options(tmp_path), tmp_path, tmp_path / "server.properties", None)
    supervisor._children = [child(tmp_path, "node", node), child(tmp_path, "web", web)]
    return supervisor


def test_a_child_that_dies_while_starting_ends_everything_and_shows_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = supervised(tmp_path, "print('no room', flush=True); raise SystemExit(3)", SLEEPER)
    assert supervisor.run() == 1
    error = capsys.readouterr().err
    assert "node ended with exit code 3" in error
    assert "no room" in error
    assert all(each.exit_code is not None for each in supervisor._children)


def test_a_child_that_dies_later_is_restarted_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = supervised(tmp_path, SLEEPER, SLEEPER)
    node = supervisor._children[0]
    is_ready = threading.Event()

    def answers(url: str) -> bool:
        if node.log_file.exists() and "up" in node.log_file.read_text():
            is_ready.set()
        return is_ready.is_set()

    monkeypatch.setattr(cli_up, "_answers", answers)
    node.backoff_seconds = 0.1
    pids: list[int] = []

    def disturb() -> None:
        try:
            assert is_ready.wait(60)
            assert node.process is not None
            pids.append(node.process.pid)
            node.process.kill()
            wait_until(lambda: node.log_file.read_text().count("up") == 2, "started again")
            pids.append(node.process.pid)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=disturb)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        thread.start()
        assert supervisor.run() == 0
    finally:
        thread.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    assert pids[0] != pids[1]
    assert node.backoff_seconds == pytest.approx(0.2)
    output = capsys.readouterr().out
    assert "node ended with exit code -9 and is restarted" in output
    assert output.rstrip().endswith("Stopped.")
    assert all(each.exit_code is not None for each in supervisor._children)
