"""docs/compatibility.md lists the APIs the code serves, and tests that exist."""

from tests.docs.apis import api_rows
from tests.docs.markdown import DOCS, ROOT, code_words, rows, section

PAGE = (DOCS / "compatibility.md").read_text()


def test_the_table_of_apis_is_what_the_listeners_advertise() -> None:
    assert rows(section(PAGE, "APIs")) == api_rows()


def test_every_proof_is_a_test_that_exists() -> None:
    proofs = [word for row in rows(section(PAGE, "What is proven, and by which test")) for word in code_words(row[1])]
    assert len(proofs) > 15
    for proof in proofs:
        path, _, name = proof.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert f"def {name}(" in text or f"class {name}:" in text, proof
