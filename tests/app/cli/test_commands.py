"""`conclave …` as users type it: exit codes 0, 1 and 2, and one line for a failure."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kraft_core.protocol.uuids import is_reserved, uuid_from_text

PROPERTIES = """process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{port}
log.dirs={folder}/data
"""
CLUSTER = "AAAAAAAAQ5uaaaaaaaaaaA"


def conclave(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def refused(*arguments: object, code: int = 1) -> str:
    outcome = conclave(*arguments)
    assert outcome.returncode == code, outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1, outcome.stderr
    return outcome.stderr


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES.format(folder=tmp_path, port=19093))
    return path


def test_random_uuid_prints_a_uuid_that_is_valid_for_a_cluster() -> None:
    outcome = conclave("random-uuid")
    text = outcome.stdout.strip()
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", text)
    assert not is_reserved(uuid_from_text(text))


def test_a_node_is_formatted_once_and_its_voters_can_be_dumped(config: Path, tmp_path: Path) -> None:
    outcome = conclave("format", "-c", config, "-t", CLUSTER, "--standalone")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith("Formatting dynamic metadata voter directory")
    assert "already formatted" in refused("format", "-c", config, "-t", CLUSTER, "--standalone")
    assert conclave("format", "-c", config, "-t", CLUSTER, "-s", "-g").returncode == 0
    snapshot = next((tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint"))
    assert "KRaftVoters" in conclave("dump-log", snapshot).stdout
    records = [json.loads(line) for line in conclave("dump-log", "--json", snapshot).stdout.splitlines()]
    assert records[2]["data"]["voters"][0]["voterId"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--standalone"),
        (["--standalone", "--no-initial-controllers"], "Only one of"),
        (["--initial-controllers", "1@h"], "1@h"),
        (["--standalone", "--feature", "group.version"], "NAME=LEVEL"),
        (["--standalone", "--release-version", "9.9"], "9.9"),
    ],
)
def test_a_wrong_format_says_why_and_writes_nothing(
    config: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert words in refused("format", "-c", config, "-t", CLUSTER, *arguments)
    assert not (tmp_path / "data").exists()


def test_static_voters_need_no_flag_and_allow_none(config: Path) -> None:
    config.write_text(config.read_text() + "controller.quorum.voters=1@127.0.0.1:19093\n")
    assert "controller.quorum.voters" in refused("format", "-c", config, "-t", CLUSTER, "--standalone")
    assert conclave("format", "-c", config, "-t", CLUSTER).returncode == 0


def test_a_wrong_setting_is_one_line_before_any_file_is_touched(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text() + "num.partitions=many\n")
    for command in (["node", "-c", config], ["format", "-c", config, "-t", CLUSTER, "-s"], ["config", "-c", config]):
        message = refused(*command)
        assert "num.partitions" in message
        assert "many" in message
    assert sorted(tmp_path.iterdir()) == [config]


def test_a_node_that_was_not_formatted_does_not_start(config: Path) -> None:
    outcome = conclave("node", "-c", config)
    assert outcome.returncode == 1
    assert "No readable meta.properties files found" in outcome.stderr


def test_a_corrupt_log_stops_the_node_naming_file_and_offset(config: Path, tmp_path: Path) -> None:
    from kraft_core.raft.quorum_state import ElectionState
    from kraft_core.storage.kafka_raft_log import KafkaRaftLog
    from kraft_core.storage.quorum_state_store import QuorumStateStore
    from tests.storage.batches import batch

    assert conclave("format", "-c", config, "-t", CLUSTER, "-s").returncode == 0
    log = KafkaRaftLog.open(tmp_path / "data")
    for offset in range(3):
        log.append(batch(offset))
    log.close()
    QuorumStateStore(tmp_path / "data").write(ElectionState(1), 1)
    segment = next((tmp_path / "data").rglob("*.log"))
    content = bytearray(segment.read_bytes())
    content[len(batch(0)) + 70] ^= 1
    segment.write_bytes(content)
    outcome = conclave("node", "-c", config)
    assert outcome.returncode == 1
    assert str(segment) in outcome.stderr
    assert f"byte {len(batch(0))}" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert segment.read_bytes() == content


def test_config_shows_every_setting_and_check_only_checks(config: Path) -> None:
    assert conclave("config", "--check", "-c", config).stdout == f"{config}: OK\n"
    values = json.loads(conclave("config", "-c", config, "--json").stdout)
    assert values["node.id"] == 1
    assert values["socket.request.max.bytes"] == 104_857_600
    assert "delete.topic.enable=true" in conclave("config", "-c", config).stdout.splitlines()


def test_config_checks_the_web_processs_file_too(tmp_path: Path) -> None:
    path = tmp_path / "web.toml"
    path.write_text('bootstrap_controllers = "127.0.0.1:9093"\nadmin_token = "a-secret-of-the-operator"\n')
    assert conclave("config", "--check", "-c", path).returncode == 0
    shown = conclave("config", "-c", path).stdout
    assert "http_port=8080" in shown
    assert "a-secret-of-the-operator" not in shown
    path.write_text('bootstrap_controllers = "127.0.0.1:9093"\nhttp_prot = 1\n')
    assert "http_prot" in refused("config", "--check", "-c", path)


def test_a_quorum_that_does_not_answer_is_one_line() -> None:
    assert "127.0.0.1:1" in refused("quorum", "describe", "--bootstrap-controller", "127.0.0.1:1")


def test_a_watch_continues_while_no_controller_answers() -> None:
    command = [sys.executable, "-m", "app.cli.main", "quorum", "describe", "--watch", "--json"]
    with subprocess.Popen(
        [*command, "--bootstrap-controller", "127.0.0.1:1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.kill()
    assert all("127.0.0.1:1" in each["error"] for each in found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--token", "t", "--url", "http://127.0.0.1:1"], "http://127.0.0.1:1/v3/clusters: "),
        (["--token", "t", "--url", "file:///etc/passwd"], "must begin with http"),
        ([], "an API token is needed"),
    ],
)
def test_a_report_that_cannot_be_requested_is_one_line(arguments: list[str], words: str) -> None:
    assert words in refused("reports", "run", *arguments)


SERVER = ["--bootstrap-controller", "127.0.0.1:1"]
KEY = ["--controller-id", "1", "--controller-directory-id"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], "bogus"),
        (["format"], "--config"),
        (["node"], "--config"),
        (["node", "-c", "/nowhere/at.all"], "/nowhere/at.all"),
        (["node", "-c", "/"], "is a directory"),
        (["up", "--kafka-port", "70000"], "65535"),
        (["dump-log"], "FILE"),
        (["dump-log", "/nowhere/0.log"], "no such file"),
        (["dump-log", "/etc/passwd"], "only .log and .checkpoint"),
        (["dump-log", "--type", "TOPIC", "/etc/passwd"], "no record type is called 'TOPIC'"),
        (["dump-log", "--from", "-1", "/etc/passwd"], "--from"),
        (["quorum", "describe"], "--bootstrap-controller"),
        (["quorum", "describe", "--bootstrap-controller", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["quorum", "describe", "--bootstrap-controller", ","], "names no controller"),
        (["quorum", "remove", *SERVER, *KEY, "short"], "--controller-directory-id"),
        (["quorum", "remove", *SERVER, *KEY, "AAAAAAAAAAAAAAAAAAAAAA"], "zero id"),
        (["quorum", "remove", *SERVER, "--controller-id", "-1"], "--controller-id"),
        (["quorum", "add", *SERVER], "--config"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(arguments: list[str], words: str) -> None:
    message = refused(*arguments, code=2)
    assert words in message
    assert "--help" in message


def test_a_group_without_a_command_shows_its_help() -> None:
    for arguments in ([], ["quorum"], ["reports"]):
        outcome = conclave(*arguments)
        assert outcome.returncode == 2
        assert "Usage" in outcome.stdout + outcome.stderr


def test_a_dump_shows_only_selected_records_and_damage_is_exit_code_1(tmp_path: Path) -> None:
    from kraft_core.protocol.metadata_records import ConfigRecord, NoOpRecord, encode_record
    from kraft_core.protocol.record_batch import encode_batch

    def batch(offset: int) -> bytes:
        records = [NoOpRecord(), ConfigRecord(resource_type=2, resource_name="t", name="k", value="v")]
        return encode_batch(offset, 3, 7, [encode_record(record, 0) for record in records])

    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(batch(0) + batch(2) + batch(4))

    def offsets(*arguments: object) -> list[int]:
        shown = conclave("dump-log", "--json", *arguments, segment)
        assert shown.returncode == 0, shown.stderr
        return [json.loads(line)["offset"] for line in shown.stdout.splitlines()]

    assert offsets() == [0, 1, 2, 3, 4, 5]
    assert offsets("--type", "CONFIG_RECORD") == [1, 3, 5]
    assert offsets("--type", "ConfigRecord", "--from", 2, "--to", 4) == [3]
    assert offsets("--type", "NO_OP_RECORD", "--type", "config_record", "--to", 1) == [0, 1]
    assert offsets("--type", "LeaderChange") == []
    text = conclave("dump-log", "--from", 3, "--to", 3, segment).stdout
    assert [line.split()[1] for line in text.splitlines() if line.startswith(("baseOffset", "| offset"))] == [
        "2",
        "offset:",
    ]
    segment.write_bytes(batch(0) + batch(2)[:-1])
    for arguments in ((), ("--json",)):
        damaged = conclave("dump-log", *arguments, segment)
        assert damaged.returncode == 1
        assert "Traceback" not in damaged.stderr
        assert damaged.stdout.count("CONFIG_RECORD") == 1


def test_help_needs_none_of_the_products_parts() -> None:
    script = (
        "import sys\nfrom app.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('kraft_core', 'fastapi', 'sqlalchemy', 'pyarrow'))])"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert outcome.stdout.splitlines()[-1] == "[]"


def test_the_web_process_loads_no_library_of_the_report_job() -> None:
    """They take 45 MB and a quarter of a second; pages that read Parquet files import them when they are opened."""
    script = (
        "import sys\nimport app.web\n"
        "print([name for name in ('pyarrow', 'numpy', 'pandas', 'pyspark') if name in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert outcome.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("typed", "completed"), [("conclave repo", ["reports"]), ("conclave context add --u", ["--url"])]
)
def test_the_shell_completes_commands_and_options(typed: str, completed: list[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_CONCLAVE_COMPLETE": "complete_bash"}
    command = Path(sys.executable).with_name("conclave")
    outcome = subprocess.run([command], env=os.environ | words, capture_output=True, text=True, timeout=60)
    assert (outcome.returncode, outcome.stdout.split()) == (0, completed)
