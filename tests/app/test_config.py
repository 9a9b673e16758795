"""Settings from one file and the environment, refused in one line with the key, the value and what is allowed."""

from pathlib import Path

import pytest

from app.config import SettingsError, load_settings


def test_the_environment_overrides_the_file_and_arguments_override_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "web.toml"
    file.write_text('bootstrap_controllers = ["a:1", "b:2"]\nhttp_port = 1\nhost = "127.0.0.2"\n')
    monkeypatch.setenv("CONCLAVE_HTTP_PORT", "2")
    monkeypatch.setenv("CONCLAVE_SESSION_IDLE_MINUTES", "7")
    settings = load_settings(file, session_idle_minutes=9)
    assert settings.bootstrap == [("a", 1), ("b", 2)]
    assert (settings.host, settings.http_port, settings.session_idle_minutes) == ("127.0.0.2", 2, 9)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("http_port = 99999", "http_port = 99999: "),
        ("teapot = 1", "unknown key 'teapot'; known: "),
        ('bootstrap_controllers = "nowhere"', "'nowhere' is not HOST:PORT"),
        ('public_url = "ftp://x"', "public_url = 'ftp://x': must be http:// or https://"),
        ('host = "0.0.0.0"', "set allowed_hosts or public_url"),
        ("http_port = ", "not TOML"),
        ('[spark_conf]\nexecutor.memory = "4g"', "spark_conf: 'executor.memory' is no setting of Spark"),
        ('[spark_conf]\nspark.master = "yarn"', "spark_conf: 'spark.master' is set by spark_master"),
        (
            'lake = "ftp://x/y"',
            "lake = 'ftp://x/y': must be a URL of file, s3, s3a, gs, abfs, abfss, hdfs, not of 'ftp'",
        ),
        ('lake = "s3:/bucket"', "lake = 's3:/bucket': must be a folder, off, or a URL with '://'"),
        ('spark_files = "/data"', "spark_files = '/data': must be a URL of file, s3"),
        ('spark_files = "s3a://"', "must name a bucket or folder after s3a://"),
        ('spark_files = "s3a://b?endpoint_override=x"', "must have no '?' or '#'"),
        ("[spark_conf]\nspark.jars = [1]", "spark_conf: 'jars' must be a text, a number or a boolean"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "web.toml"
    given = "" if line.startswith("bootstrap") else 'bootstrap_controllers = "a:1"\n'
    file.write_text(given + line)
    with pytest.raises(SettingsError) as wrong:
        load_settings(file)
    assert said in str(wrong.value)
    assert str(file) in str(wrong.value)


def test_a_secret_is_never_repeated(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as wrong:
        load_settings(None, bootstrap_controllers="a:1", admin_token="hunter2")
    assert "hunter2" not in str(wrong.value)
    settings = load_settings(None, bootstrap_controllers="a:1", admin_token="hunter2hunter2hunter2")
    assert "hunter2" not in repr(settings)


def test_a_missing_setting_says_how_to_set_it() -> None:
    with pytest.raises(SettingsError, match="CONCLAVE_BOOTSTRAP_CONTROLLERS"):
        load_settings(None)


def test_settings_of_spark_are_nested_tables_quoted_names_or_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "web.toml"
    table = 'spark.executor.memory = "4g"\nspark.executor.cores = 2\n"spark.shuffle.service.enabled" = true\n'
    file.write_text(f'bootstrap_controllers = "a:1"\n[spark_conf]\n{table}')
    expected = {"spark.executor.memory": "4g", "spark.executor.cores": "2", "spark.shuffle.service.enabled": "true"}
    assert load_settings(file).spark_conf == expected
    monkeypatch.setenv("CONCLAVE_SPARK_CONF", '{"spark.hadoop.fs.s3a.secret.key": "hush"}')
    settings = load_settings(file)
    assert settings.spark_conf == {"spark.hadoop.fs.s3a.secret.key": "hush"}
    assert "hush" not in str(settings.public_spark_conf)
