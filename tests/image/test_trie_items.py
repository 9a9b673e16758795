"""A persistent map's contents as a list, compared with what its own iterators give."""

from hypothesis import given
from hypothesis import strategies as st
from rpds import HashTrieMap

from kraft_core.image.trie_items import items_of, values_of


@given(st.dictionaries(st.integers(), st.text()), st.lists(st.integers()))
def test_the_list_equals_what_the_iterators_yield(contents: dict[int, str], removed: list[int]) -> None:
    trie = HashTrieMap(contents)
    for key in removed:
        trie = trie.discard(key)
    expected = {key: value for key, value in contents.items() if key not in removed}
    assert dict(items_of(trie)) == dict(trie.items()) == expected
    assert len(items_of(trie)) == len(expected)
    assert sorted(values_of(trie)) == sorted(expected.values())
