"""Kafka's config providers: secrets from files and the environment."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.security.config_providers import resolve_variables
from kraft_core.security.properties import SecurityConfigError

PACKAGE = "org.apache.kafka.common.config.provider."


def providers(**parameters: str) -> dict[str, str]:
    """Return the settings of all three providers `file`, `dir` and `env`; parameters are given as name_key."""
    found = {"config.providers": "file, dir,env"}
    for name, kind in (("file", "File"), ("dir", "Directory"), ("env", "EnvVar")):
        found[f"config.providers.{name}.class"] = f"{PACKAGE}{kind}ConfigProvider"
    for key, value in parameters.items():
        name, _, parameter = key.partition("_")
        found[f"config.providers.{name}.param.{parameter.replace('_', '.')}"] = value
    return found


def resolved(text: str, **parameters: str) -> str:
    return resolve_variables({**providers(**parameters), "key": text})["key"]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("password=correct-horse\nempty=\nodd=a\\:b\n")
    return path


def test_a_variable_may_be_a_key_of_a_properties_file(secrets: Path) -> None:
    assert resolved(f"${{file:{secrets}:password}}") == "correct-horse"
    assert resolved(f"<${{file:{secrets}:password}}|${{file:{secrets}:odd}}>") == "<correct-horse|a:b>"
    assert resolved(f"${{file:{secrets}:empty}}") == ""


def test_a_variable_may_be_a_file_of_a_folder(secrets: Path) -> None:
    (secrets.parent / "token").write_text("abc\n")
    assert resolved(f"${{dir:{secrets.parent}:token}}") == "abc\n", "unchanged, with the end of line"


def test_a_variable_may_be_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_PASSWORD", "from-outside")
    assert resolved("${env:KEY_PASSWORD}") == "from-outside"
    assert resolved("${env::KEY_PASSWORD}") == "from-outside"
    assert resolved("${env:KEY_PASSWORD}", env_allowlist_pattern="KEY_.*") == "from-outside"
    with pytest.raises(SecurityConfigError):
        resolved("${env:KEY_PASSWORD}", env_allowlist_pattern="KEY")


@pytest.mark.parametrize("text", ["${env:NO_SUCH_VARIABLE}", "${file:%s:nothing}", "${dir:%s:nothing}", "${dir:/:a/b}"])
def test_a_variable_without_a_value_is_refused_with_the_name_of_the_setting(secrets: Path, text: str) -> None:
    with pytest.raises(SecurityConfigError, match=r"for configuration key: it has no value there") as refused:
        resolved(text.replace("%s", str(secrets)))
    assert "correct-horse" not in str(refused.value)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SecurityConfigError, match="cannot be read"):
        resolved(f"${{file:{tmp_path / 'none'}:password}}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for text in (f"${{file:{tmp_path / 'bytes'}:password}}", f"${{dir:{tmp_path}:bytes}}"):
        with pytest.raises(SecurityConfigError, match="cannot be read"):
            resolved(text)


def test_only_allowed_paths_are_read(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    text = f"${{file:{secrets}:password}}"
    assert resolved(text, file_allowed_paths=f"{other},{secrets.parent}") == "correct-horse"
    assert resolved(text, file_allowed_paths=str(secrets)) == "correct-horse"
    with pytest.raises(SecurityConfigError, match=r"not within its allowed\.paths"):
        resolved(text, file_allowed_paths=str(other))
    around = f"${{file:{other}/../{secrets.parent.name}/{secrets.name}:password}}"
    with pytest.raises(SecurityConfigError, match=r"allowed\.paths"):
        resolved(around, file_allowed_paths=str(other))
    link = other / "link"
    link.symlink_to(secrets)
    with pytest.raises(SecurityConfigError, match=r"allowed\.paths"):
        resolved(f"${{file:{link}:password}}", file_allowed_paths=str(other))


def test_a_file_name_cannot_leave_its_folder(secrets: Path) -> None:
    inner = secrets.parent / "inner"
    inner.mkdir()
    for name in ("../secrets.properties", str(secrets), ".."):
        with pytest.raises(SecurityConfigError):
            resolved(f"${{dir:{inner}:{name}}}")


def test_a_variable_without_a_provider_stays_as_it_is() -> None:
    assert resolved("${other:path:key}") == "${other:path:key}"
    assert resolved("${no-variable}") == "${no-variable}"
    assert resolve_variables({"key": "${env:HOME}"}) == {"key": "${env:HOME}"}, "no provider is configured"


def test_the_settings_of_providers_are_not_resolved() -> None:
    properties = {**providers(), "config.providers.env.param.allowlist.pattern": "${env:HOME}"}
    assert resolve_variables(properties) == properties


def test_an_unknown_provider_class_is_refused() -> None:
    properties = {"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"}
    with pytest.raises(SecurityConfigError, match=r"com\.example\.Vault for configuration config\.providers\.vault"):
        resolve_variables(properties)


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_variable_is_kept(text: str) -> None:
    assert resolved(text) == text
