"""Properties text reads and writes as java.util.Properties has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.storage.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a : b  ", {"a": "b  "}),
        ("a b c", {"a": "b c"}),
        ("# note\n! note\n\na=1", {"a": "1"}),
        ("a=1,\\\n   2", {"a": "1,2"}),
        ("a=\\\n# not a comment", {"a": "# not a comment"}),
        ("a\\=b=c\\\\", {"a=b": "c\\"}),
        ("a=\\u00e9\\t", {"a": "é\t"}),
        ("a", {"a": ""}),
        ("a=1\r\na=2\r\n", {"a": "2"}),
        ("a=one\\", {"a": "one"}),
    ],
)
def test_text_is_parsed_as_in_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(ValueError, match="line 2: malformed"):
        parse_properties("a=1\nb=\\u00g0")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_written_properties_can_be_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties, "written\nby a test")) == properties
