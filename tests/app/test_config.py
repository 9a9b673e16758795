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
