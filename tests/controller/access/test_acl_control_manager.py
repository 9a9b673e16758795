"""Creation, deletion and listing of ACLs: errors, records, filters."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.controller.access.acl_control_manager import describe_acls
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.standard_authorizer import StandardAuthorizer
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tests.controller.active_controller import ActiveController

TOPIC, GROUP, CLUSTER = 2, 3, 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3


def creation(**fields: Any) -> m.CreateAclsRequestAclCreation:
    defaults = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return m.CreateAclsRequestAclCreation(**{**defaults, **fields})


def create(active: ActiveController, *creations: m.CreateAclsRequestAclCreation) -> list[tuple[int, str | None]]:
    answer = active.ask(m.CreateAclsRequest(creations=creations))
    return [(result.error_code, result.error_message) for result in answer.results]


def wanted(**fields: Any) -> m.DeleteAclsRequestDeleteAclsFilter:
    defaults = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return m.DeleteAclsRequestDeleteAclsFilter(**{**defaults, **fields})


def describe(active: ActiveController, **fields: Any) -> list[tuple[int, str, int, list[tuple[str, int]]]]:
    each = wanted(**fields)
    names = m.DescribeAclsRequest.__struct_fields__
    answer = active.ask(m.DescribeAclsRequest(**{name: getattr(each, name) for name in names}))
    return [
        (
            found.resource_type,
            found.resource_name,
            found.pattern_type,
            [(acl.principal, acl.operation) for acl in found.acls],
        )
        for found in answer.resources
    ]


@pytest.fixture
def active() -> ActiveController:
    return ActiveController(authorizer=StandardAuthorizer())


def acl_records(active: ActiveController) -> list[AccessControlEntryRecord]:
    return [record for record in active.log() if isinstance(record, AccessControlEntryRecord)]


def test_a_new_acl_is_one_record_with_a_unique_id(active: ActiveController) -> None:
    assert create(active, creation(), creation(operation=WRITE)) == [(0, ""), (0, "")]
    records = acl_records(active)
    assert [record.operation for record in records] == [READ, WRITE]
    assert len({record.id for record in records}) == 2
    assert set(active.committed.acls.by_id) == {record.id for record in records}


def test_an_acl_that_exists_or_comes_twice_is_a_success_without_a_record(active: ActiveController) -> None:
    """AclControlManagerTest.testCreateDedupAcl."""
    assert create(active, creation(), creation()) == [(0, ""), (0, "")]
    assert create(active, creation()) == [(0, "")]
    assert len(acl_records(active)) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 99}, "Invalid patternType UNKNOWN"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 99}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"principal": "alice"},
            (
                "Could not parse principal from `alice` (no colon is present separating the principal type "
                "from the principal name)"
            ),
        ),
    ],
)
def test_a_bad_acl_is_refused_and_the_others_of_the_request_are_added(
    active: ActiveController, fields: dict[str, Any], message: str
) -> None:
    """AclControlManagerTest.testValidateNewAcl."""
    assert create(active, creation(**fields), creation()) == [(ErrorCode.INVALID_REQUEST, message), (0, "")]
    assert len(active.committed.acls) == 1


@pytest.mark.parametrize("code", [0, ANY])
@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_any_or_unknown_types_refuse_the_whole_request(active: ActiveController, field: str, code: int) -> None:
    results = create(active, creation(), creation(**{field: code}))
    assert results == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * 2
    assert len(active.committed.acls) == 0
    assert not active.controller.wants_resign


def test_match_is_not_a_pattern_of_an_acl(active: ActiveController) -> None:
    assert create(active, creation(resource_pattern_type=MATCH)) == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)]


def test_the_cluster_is_named_kafka_cluster(active: ActiveController) -> None:
    assert create(active, creation(resource_type=CLUSTER, resource_name="kafka-cluster")) == [(0, "")]


def test_deleting_answers_what_each_filter_matched_and_writes_each_removal_once(active: ActiveController) -> None:
    """AclControlManagerTest.testCreateAclDeleteAcl."""
    create(active, creation(), creation(operation=WRITE), creation(resource_name="other"))
    answer = active.ask(
        m.DeleteAclsRequest(
            filters=(wanted(resource_name_filter="orders"), wanted(operation=READ), wanted(host_filter="x"))
        )
    )
    found = [[(acl.resource_name, acl.operation) for acl in each.matching_acls] for each in answer.filter_results]
    assert found == [[("orders", READ), ("orders", WRITE)], [("orders", READ), ("other", READ)], []]
    assert [each.error_code for each in answer.filter_results] == [0, 0, 0]
    removed = [record for record in active.log() if isinstance(record, RemoveAccessControlEntryRecord)]
    assert len(removed) == 3
    assert len(active.committed.acls) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type_filter": 99}, "Unknown patternFilter."),
        ({"pattern_type_filter": 99}, "Unknown patternFilter."),
        ({"operation": 99}, "Unknown entryFilter."),
        ({"permission_type": 99}, "Unknown entryFilter."),
    ],
)
def test_a_filter_with_an_unknown_word_deletes_nothing(
    active: ActiveController, fields: dict[str, Any], message: str
) -> None:
    """AclControlManagerTest.testValidateFilter."""
    create(active, creation())
    (result,) = active.ask(m.DeleteAclsRequest(filters=(wanted(**fields),))).filter_results
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert len(active.committed.acls) == 1


def test_a_filter_with_a_zero_is_refused(active: ActiveController) -> None:
    (result,) = active.ask(m.DeleteAclsRequest(filters=(wanted(operation=0),))).filter_results
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    answer = active.ask(m.DescribeAclsRequest(pattern_type_filter=0, resource_type_filter=ANY))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_more_than_10000_deletions_are_refused_as_a_whole(active: ActiveController) -> None:
    """Nothing is deleted, because a partial deletion could be overlooked in a large response."""
    for start in (0, 6000):
        create(active, *(creation(resource_name=f"t{number}") for number in range(start, start + 6000)))
    before = active.writer.next_offset
    (result,) = active.ask(m.DeleteAclsRequest(filters=(wanted(),))).filter_results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Cannot remove more than 10000 acls in a single delete operation."
    assert active.writer.next_offset == before


def test_more_than_10000_creations_are_refused_as_a_whole(active: ActiveController) -> None:
    results = create(active, *(creation(resource_name=f"t{number}") for number in range(10_001)))
    assert {code for code, _ in results} == {ErrorCode.POLICY_VIOLATION}
    assert len(active.committed.acls) == 0


def test_an_acl_that_a_log_holds_under_two_ids_is_deleted_under_both() -> None:
    active = ActiveController(authorizer=StandardAuthorizer())
    create(active, creation())
    (acl,) = active.tip.acls.by_id.values()
    twin = AccessControlEntryRecord(
        id=UUID(int=5), **{name: getattr(acl, name) for name in type(acl).__struct_fields__}
    )
    active.writer.append([twin])
    active.commit()
    active.ask(m.DeleteAclsRequest(filters=(wanted(),)))
    assert len(active.committed.acls) == 0
    assert not len(active.committed.acls.by_pattern)


def test_listed_acls_are_grouped_by_resource_and_sorted(active: ActiveController) -> None:
    create(
        active,
        creation(principal="User:b"),
        creation(),
        creation(resource_type=GROUP, resource_name="g"),
        creation(resource_name="or", resource_pattern_type=PREFIXED),
    )
    assert describe(active) == [
        (TOPIC, "orders", LITERAL, [("User:alice", READ), ("User:b", READ)]),
        (TOPIC, "or", PREFIXED, [("User:alice", READ)]),
        (GROUP, "g", LITERAL, [("User:alice", READ)]),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"resource_name_filter": "orders"}, {("orders", LITERAL)}),
        ({"resource_name_filter": "orders", "pattern_type_filter": MATCH}, {("orders", 3), ("or", 4), ("*", 3)}),
        ({"resource_name_filter": "or", "pattern_type_filter": MATCH}, {("or", 4), ("*", 3)}),
        ({"resource_name_filter": "*", "pattern_type_filter": MATCH}, {("*", 3)}),
        ({"pattern_type_filter": PREFIXED}, {("or", 4)}),
        ({"resource_name_filter": "or", "pattern_type_filter": PREFIXED}, {("or", 4)}),
        ({"resource_name_filter": "or", "pattern_type_filter": LITERAL}, set()),
        ({"pattern_type_filter": 99}, set()),
        ({"principal_filter": "User:b"}, set()),
        ({"permission_type": DENY}, set()),
    ],
)
def test_a_pattern_filter_matches_as_in_kafka(
    active: ActiveController, fields: dict[str, Any], expected: set[tuple[str, int]]
) -> None:
    """KIP-290: LITERAL and PREFIXED match patterns of that type, ANY both by name, MATCH all that cover the name."""
    create(
        active,
        creation(),
        creation(resource_name="or", resource_pattern_type=PREFIXED),
        creation(resource_name="*"),
    )
    for kind in ({}, {"resource_type_filter": TOPIC}):
        assert {(name, pattern) for _, name, pattern, _ in describe(active, **fields, **kind)} == expected


def test_acls_need_an_authorizer() -> None:
    active = ActiveController()
    assert create(active, creation()) == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")]
    answer = active.ask(m.DescribeAclsRequest())
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
    active.lose_leadership()
    (result,) = active.ask(m.DeleteAclsRequest(filters=(wanted(),))).filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED


def test_only_the_active_controller_creates_acls_and_any_lists_them(active: ActiveController) -> None:
    create(active, creation())
    active.lose_leadership()
    ((code, _),) = create(active, creation(operation=WRITE))
    assert code == ErrorCode.NOT_CONTROLLER
    assert len(describe(active)) == 1


_CREATIONS = st.builds(
    creation,
    resource_name=st.sampled_from(["a", "ab", "abc", "*"]),
    resource_pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob"]),
    operation=st.sampled_from([READ, WRITE]),
    host=st.sampled_from(["*", "h"]),
)
_FILTERS = st.builds(
    wanted,
    resource_type_filter=st.sampled_from([ANY, TOPIC]),
    resource_name_filter=st.sampled_from([None, "a", "ab", "*", "z"]),
    pattern_type_filter=st.sampled_from([ANY, MATCH, LITERAL, PREFIXED]),
    principal_filter=st.sampled_from([None, "User:alice"]),
    operation=st.sampled_from([ANY, READ]),
)


def naive_match(each: m.DeleteAclsRequestDeleteAclsFilter, acl: m.CreateAclsRequestAclCreation) -> bool:
    name, pattern, wanted_name = acl.resource_name, acl.resource_pattern_type, each.resource_name_filter
    by_name = {
        ANY: wanted_name in (None, name),
        LITERAL: pattern == LITERAL and wanted_name in (None, name),
        PREFIXED: pattern == PREFIXED and wanted_name in (None, name),
        MATCH: wanted_name is None
        or (wanted_name.startswith(name) if pattern == PREFIXED else name in (wanted_name, "*")),
    }[each.pattern_type_filter]
    return by_name and each.principal_filter in (None, acl.principal) and each.operation in (ANY, acl.operation)


@given(st.lists(_CREATIONS, max_size=20), st.lists(_FILTERS, min_size=1, max_size=3))
@settings(max_examples=120, deadline=None)
def test_deletion_leaves_exactly_what_no_filter_matches(
    creations: list[m.CreateAclsRequestAclCreation], filters: list[m.DeleteAclsRequestDeleteAclsFilter]
) -> None:
    active = ActiveController(authorizer=StandardAuthorizer())
    create(active, *creations)
    answer = active.ask(m.DeleteAclsRequest(filters=tuple(filters)))
    distinct = {repr(each): each for each in creations}.values()
    for each, result in zip(filters, answer.filter_results, strict=True):
        assert len(result.matching_acls) == sum(naive_match(each, acl) for acl in distinct)
    kept = [acl for acl in distinct if not any(naive_match(each, acl) for each in filters)]
    assert len(active.committed.acls) == len(kept)
    assert active.replayed().same_metadata(active.committed)


def test_a_listing_does_not_change_with_the_order_of_the_log() -> None:
    records = [
        AccessControlEntryRecord(
            id=UUID(int=number), resource_type=TOPIC, resource_name=f"t{number % 3}", pattern_type=LITERAL,
            principal=f"User:{number}", host="*", operation=READ, permission_type=ALLOW,
        )
        for number in range(1, 10)
    ]  # fmt: skip
    images = [replay_all(MetadataImage.EMPTY, order, 9, 1) for order in (records, records[::-1])]
    everything = m.DescribeAclsRequest(
        resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY, principal_filter=None,
        host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    assert images[0] == images[1]
    authorizer = StandardAuthorizer()
    assert describe_acls(images[0], everything, authorizer) == describe_acls(images[1], everything, authorizer)
