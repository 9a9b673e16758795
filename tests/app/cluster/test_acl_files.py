"""ACLs read from CSV and JSON, and what is said of wrong lines."""

import json

import pytest

from app.cluster.acl_files import ACLS_MAX, ERRORS_MAX, read_acls, shown_acl
from app.cluster.acls import words_of
from app.rest.examples import EXAMPLES

ROW = EXAMPLES["create_acl"]
HEADER = ",".join(ROW)
LINE = ",".join(ROW.values())


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([ROW]),
        json.dumps({"kind": "KafkaAclList", "data": [ROW, ROW]}),
        f"{HEADER}\n{LINE}\n\n{LINE.lower().replace('user:', 'User:')}\n",
        f"\ufeff{HEADER}\r\n{LINE}",
        "Principal,Permission,Operation,Resource,Pattern type,Host\nUser:alice,allow,read,topic orders,literal,*",
        (
            '{"table": "acls", "rows": [{"principal": "User:alice", "permission": "allow", "operation": "read", '
            '"resource": "topic orders", "pattern_type": "literal", "host": "*"}]}'
        ),
        "主体,权限,操作,资源,模式类型,主机\nUser:alice,allow,read,topic orders,literal,",
    ],
    ids=["list", "rest", "csv", "bom", "page", "page-json", "chinese"],
)
def test_each_form_of_an_acl_is_read_once(text: str) -> None:
    found = read_acls(text)
    assert found.wrong == []
    (acl,) = found.acls
    assert str(acl) == (
        "StandardAcl[resourceType=TOPIC, resourceName=orders, patternType=LITERAL, principal=User:alice, host=*, "
        "operation=READ, permissionType=ALLOW]"
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "There is no ACL in it."),
        (HEADER, 1, "There is no ACL in it."),
        ("[{", 1, "This is not valid JSON."),
        ("[" * 100_000, 1, "This is not valid JSON."),
        ('{"data": 1}', 1, "JSON must be a list of ACLs"),
        (json.dumps([ROW, 7]), 2, "This is no JSON object."),
        ("a,b\n1,2", 1, "The first line must name the columns: resource_type"),
        (f"{HEADER}\n{LINE}\n{LINE.replace('READ', 'FLY')}", 3, "FLY"),
        (f"\n\n{HEADER}\n\n{LINE.replace('READ', 'FLY')}", 5, "operation 'FLY' is not one of"),
        (f"{HEADER}\n{LINE.replace('User:alice', 'alice')}", 2, "must be TYPE:NAME, as in User:alice (was 'alice')."),
        (f"{HEADER}\nTOPIC,,LITERAL", 2, "resource_name, principal, operation, permission must be given."),
        (json.dumps([ROW, {**ROW, "principal": None}]), 2, "principal must be given."),
        (json.dumps([ROW, {**ROW, "resource_name": "\ud800"}]), 2, "This is not valid JSON."),
        (json.dumps([{**ROW, "operation": "\udc00"}]), 1, "This is not valid JSON."),
        (json.dumps([{**ROW, "resource_name": f"t{n}"} for n in range(ACLS_MAX + 1)]), 1, "more than 1000 ACLs"),
        ("\n".join([HEADER, '"' + "x" * 200_000]), 2, "This is not valid CSV."),
    ],
)
def test_a_wrong_line_is_named(text: str, line: int, said: str) -> None:
    (first, *_) = read_acls(text).wrong
    assert (first.line, said in first.text) == (line, True), first


def test_not_all_wrong_lines_are_listed() -> None:
    assert len(read_acls("\n".join([HEADER, *["x"] * 1_000])).wrong) == ERRORS_MAX


@pytest.mark.parametrize(
    "change",
    [
        {"principal": "User:CN=a,  O=b", "resource_name": " two  spaces "},
        {"principal": "User:line\nbreak", "host": "10.0.0.7"},
        {"resource_type": "TRANSACTIONAL_ID", "operation": "DESCRIBE_CONFIGS", "permission": "DENY"},
    ],
)
def test_a_written_acl_is_read_again(change: dict[str, str]) -> None:
    row = {**ROW, **change}
    (acl,) = read_acls(json.dumps({"rows": [shown_acl(row)]})).acls
    assert words_of(acl) == row
