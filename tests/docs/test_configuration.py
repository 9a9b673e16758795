"""docs/configuration.md names every setting, with the default the code has."""

from fnmatch import fnmatchcase

import pytest
from pydantic_core import PydanticUndefined

from app.config import Settings
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.server.config.server_properties import definitions
from tests.docs.acted_keys import acted_keys
from tests.docs.markdown import DOCS, code_words, rows, section

NONE = "\N{EN DASH}"
PAGE = (DOCS / "configuration.md").read_text()
ACTED = rows(section(PAGE, "server.properties: keys that a node acts on"))
WITHOUT_EFFECT = [code_words(row[0]) for row in rows(section(PAGE, "server.properties: accepted, without effect"))]


def shown(default: object) -> str:
    """A default as the tables write it."""
    if default is None:
        return NONE
    text = (",".join(default) if isinstance(default, tuple) else str(default)).replace("|", "\\|")
    return f"`{text}`" if text else '`""`'


def test_the_keys_that_act_are_those_the_code_reads() -> None:
    assert {row[0].strip("`") for row in ACTED} == acted_keys()
    assert len({row[0] for row in ACTED}) == len(ACTED)


def test_their_defaults_are_the_codes() -> None:
    for key, default, *_ in ACTED:
        definition = definitions()[key.strip("`")]
        assert default == ("*required*" if definition.is_required else shown(definition.default)), key


def test_every_other_key_is_listed_as_without_effect() -> None:
    patterns = [pattern for row in WITHOUT_EFFECT for pattern in row]
    others = set(definitions()) - acted_keys()
    for pattern in patterns:
        assert any(fnmatchcase(key, pattern) for key in others), f"{pattern} matches no key"
    refused = set(code_words(section(PAGE, "server.properties: refused")))
    for key in others - refused:
        matching = [pattern for pattern in patterns if fnmatchcase(key, pattern)]
        assert len(matching) == 1, f"{key}: {matching}"
    for key in acted_keys():
        assert not any(fnmatchcase(key, pattern) for pattern in patterns), f"{key} acts"


def test_what_is_said_to_be_refused_is_refused_with_that_line() -> None:
    base = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.dirs": "/nowhere",
    }
    broker = {"process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
    tries = (
        {"controller.listener.names": "SASL_SSL", "listeners": "SASL_SSL://:9093"},
        {**broker, "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT"},
        {"create.topic.policy.class.name": "X"},
        {**broker, "authorizer.class.name": "X"},
    )
    said = section(PAGE, "server.properties: refused")
    for change in tries:
        with pytest.raises(ConfigError) as refusal:
            KafkaConfig({**base, **change})
        assert f"`{refusal.value}`" in said


def test_every_setting_of_the_web_process_is_there_with_its_default_and_meaning() -> None:
    table = {row[0].strip("`"): row for row in rows(section(PAGE, "The web process"))}
    assert set(table) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        _, environment, default, meaning = table[name]
        assert environment == f"`CONCLAVE_{name.upper()}`"
        if field.default is PydanticUndefined:
            assert default == "*required*"
        else:
            assert default == shown(field.default if field.default not in ((), "", {}) else None)
        assert meaning == field.description
