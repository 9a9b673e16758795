"""Changes of client quotas, after ClientQuotaControlManagerTest."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import ClientQuotaRecord
from tests.controller.active_controller import ActiveController

Entity = dict[str, str | None]


def entry(entity: Entity | list[tuple[str, str | None]], **ops: float | None) -> m.AlterClientQuotasRequestEntryData:
    pairs = entity.items() if isinstance(entity, dict) else entity
    return m.AlterClientQuotasRequestEntryData(
        entity=tuple(m.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in pairs),
        ops=tuple(
            m.AlterClientQuotasRequestOpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops.items()
        ),
    )


def alter(active: ActiveController, *entries: Any, **fields: Any) -> list[tuple[Entity, int, str | None]]:
    answer = active.ask(m.AlterClientQuotasRequest(entries=entries, **fields))
    return [
        ({part.entity_type: part.entity_name for part in each.entity}, each.error_code, each.error_message)
        for each in answer.entries
    ]


def quotas(active: ActiveController) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    return {entity: dict(values.items()) for entity, values in active.committed.client_quotas.items()}


def records(active: ActiveController) -> list[ClientQuotaRecord]:
    return [each for each in active.log() if isinstance(each, ClientQuotaRecord)]


@pytest.fixture
def active() -> ActiveController:
    return ActiveController()


@pytest.mark.parametrize(
    "entity",
    [
        {"user": "u"},
        {"user": None},
        {"client-id": "c"},
        {"client-id": None},
        {"user": "u", "client-id": "c"},
        {"user": None, "client-id": None},
        {"user": "u", "client-id": None},
    ],
)
def test_users_and_clients_and_both_and_their_defaults_have_quotas(active: ActiveController, entity: Entity) -> None:
    """testEntityTypes."""
    assert alter(active, entry(entity, producer_byte_rate=1024.0, request_percentage=12.5)) == [(entity, 0, None)]
    assert quotas(active) == {tuple(sorted(entity.items())): {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}


@pytest.mark.parametrize("address", [None, "10.1.2.3", "::1", "localhost"])
def test_addresses_have_a_connection_rate(active: ActiveController, address: str | None) -> None:
    assert alter(active, entry({"ip": address}, connection_creation_rate=5.0)) == [({"ip": address}, 0, None)]
    assert quotas(active) == {(("ip", address),): {"connection_creation_rate": 5.0}}


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"": "x"}, "Unhandled client quota entity type: "),
        ({"host": "x"}, "Unhandled client quota entity type: host"),
        ({"user": ""}, "Empty user not supported"),
        ({"user": "u", "client-id": ""}, "Empty client-id not supported"),
        (
            {"ip": "10.1.2.3", "user": "u"},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ({"ip": "1.2.3"}, "1.2.3 is not a valid IP or resolvable host."),
    ],
)
def test_an_invalid_entity_is_refused(active: ActiveController, entity: Entity, message: str) -> None:
    """testInvalidEntityTypes."""
    (result,) = alter(active, entry(entity, producer_byte_rate=1.0))
    assert result == (entity, ErrorCode.INVALID_REQUEST, message)
    assert quotas(active) == {}


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        ("user", "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("user", "producer_byte_rate", -1.0, "Quota producer_byte_rate must be greater than 0"),
        ("user", "request_percentage", float("nan"), "Quota request_percentage must be greater than 0"),
        ("user", "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ("user", "consumer_byte_rate", 2.0**64, "Proposed value for consumer_byte_rate is too large for a LONG."),
        (
            "ip",
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ("ip", "connection_creation_rate", 1.5, "connection_creation_rate cannot be a fractional value."),
        ("ip", "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ("user", "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ("user", "not.a.key", 1.0, "Invalid configuration key not.a.key"),
    ],
)
def test_an_invalid_key_or_value_refuses_its_whole_entity_and_no_other(
    active: ActiveController, entity: str, key: str, value: float, message: str
) -> None:
    """testConfigKeysForEntityType, testValidateQuotaKeyValue."""
    wrong = {entity: "10.0.0.1"}
    right = {"controller_mutation_rate": 1.0} if entity == "user" else {}
    results = alter(active, entry(wrong, **right, **{key: value}), entry({"user": "good"}, request_percentage=1.0))
    assert results == [(wrong, ErrorCode.INVALID_REQUEST, message), ({"user": "good"}, 0, None)]
    assert quotas(active) == {(("user", "good"),): {"request_percentage": 1.0}}


@pytest.mark.parametrize("key", ["request_percentage", "controller_mutation_rate"])
def test_some_quotas_are_fractions(active: ActiveController, key: str) -> None:
    assert alter(active, entry({"user": "u"}, **{key: 0.25}))[0][1] == 0


def test_integers_are_accepted_with_a_rounding_error(active: ActiveController) -> None:
    """A rate is a double, so an integer may have a rounding error of 1e-7."""
    assert alter(active, entry({"user": "u"}, producer_byte_rate=1000.0000001))[0][1] == 0


def test_unchanged_values_are_not_recorded(active: ActiveController) -> None:
    """testAlterAndRemove."""
    alter(active, entry({"user": "u"}, producer_byte_rate=1.0))
    alter(active, entry({"user": "u"}, producer_byte_rate=1.0, consumer_byte_rate=None))
    assert len(records(active)) == 1


def test_an_entity_without_quotas_is_removed(active: ActiveController) -> None:
    alter(active, entry({"user": "u"}, producer_byte_rate=1.0, consumer_byte_rate=2.0))
    alter(active, entry({"user": "u"}, producer_byte_rate=None))
    assert quotas(active) == {(("user", "u"),): {"consumer_byte_rate": 2.0}}
    alter(active, entry({"user": "u"}, consumer_byte_rate=None))
    assert quotas(active) == {}


def test_validate_only_changes_nothing(active: ActiveController) -> None:
    assert alter(active, entry({"user": "u"}, producer_byte_rate=1.0), validate_only=True) == [({"user": "u"}, 0, None)]
    assert not records(active)


def test_a_repeated_entity_is_applied_once_and_reported_as_duplicate(active: ActiveController) -> None:
    message = "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    first, second = entry({"user": "u"}, producer_byte_rate=1.0), entry({"user": "u"}, producer_byte_rate=2.0)
    assert alter(active, first, second) == [({"user": "u"}, ErrorCode.INVALID_REQUEST, message)]
    assert quotas(active) == {(("user", "u"),): {"producer_byte_rate": 1.0}}


def test_a_repeated_key_changes_nothing(active: ActiveController) -> None:
    op = m.AlterClientQuotasRequestOpData(key="producer_byte_rate", value=1.0)
    user = m.AlterClientQuotasRequestEntityData(entity_type="user", entity_name=None)
    twice = m.AlterClientQuotasRequestEntryData(entity=(user,), ops=(op, op))
    message = "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"
    assert alter(active, twice) == [({"user": None}, ErrorCode.INVALID_REQUEST, message)]
    assert quotas(active) == {}


def test_the_order_of_an_entitys_parts_does_not_matter(active: ActiveController) -> None:
    alter(active, entry([("user", "u"), ("client-id", "c")], producer_byte_rate=1.0))
    alter(active, entry([("client-id", "c"), ("user", "u")], producer_byte_rate=2.0))
    assert quotas(active) == {(("client-id", "c"), ("user", "u")): {"producer_byte_rate": 2.0}}


def test_one_request_is_one_batch(active: ActiveController) -> None:
    batches = len(active.writer.batches)
    alter(active, *(entry({"user": f"u{number}"}, producer_byte_rate=1.0) for number in range(20)))
    assert len(active.writer.batches) == batches + 1


_ENTITIES = st.sampled_from([{"user": "a"}, {"user": None}, {"client-id": "c"}, {"user": "a", "client-id": "c"}])
_CHANGES = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "request_percentage"]), st.sampled_from([None, 1.0, 2.0]), min_size=1
)


@given(st.lists(st.tuples(_ENTITIES, _CHANGES), max_size=12))
@settings(max_examples=80, deadline=None)
def test_quotas_are_what_a_plain_dict_would_hold(changes: list[tuple[Entity, dict[str, float | None]]]) -> None:
    active = ActiveController()
    expected: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
    for entity, values in changes:
        alter(active, entry(entity, **values))
        held = expected.setdefault(tuple(sorted(entity.items())), {})
        for key, value in values.items():
            held.pop(key, None)
            if value is not None:
                held[key] = value
    assert quotas(active) == {entity: held for entity, held in expected.items() if held}
    assert active.replayed().same_metadata(active.committed)
