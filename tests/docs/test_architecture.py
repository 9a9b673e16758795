"""docs/architecture.md draws and names what the code has."""

from kraft_core.raft.quorum_state import NEXT
from tests.docs.diagram import diagram, layer_contracts, layers
from tests.docs.markdown import DOCS, ROOT, code_words, fenced, rows, section

PAGE = (DOCS / "architecture.md").read_text()


def test_the_diagram_of_states_is_that_of_the_table_of_transitions() -> None:
    assert fenced(PAGE, "mermaid") == [diagram()]


def test_the_layers_are_those_that_import_linter_holds_and_no_module_is_outside() -> None:
    assert fenced(PAGE, "text") == [layers()]
    assert all(contract["exhaustive"] for contract in layer_contracts())


def test_every_state_is_explained() -> None:
    assert {row[0].strip("`") for row in rows(section(PAGE, "States of a node in the quorum"))} == {
        state.__name__ for state in NEXT
    }


def test_every_package_is_named_and_every_name_is_a_file_or_folder() -> None:
    named = {word for row in rows(section(PAGE, "Packages")) for word in code_words(row[0])}
    for name in named:
        assert (ROOT / name).exists(), name
    for parent in ("app", "conclave", "kraft_core"):
        packages = {f"{parent}/{path.parent.name}" for path in (ROOT / parent).glob("*/__init__.py")}
        assert packages <= named


def test_every_module_of_the_journeys_exists() -> None:
    for word in code_words(section(PAGE, "Three journeys")):
        if word.startswith(("app/", "kraft_core/")):
            assert (ROOT / f"{word}.py").exists() or (ROOT / word).exists(), word
