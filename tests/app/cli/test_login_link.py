"""`conclave login-link`, for a user who is locked out."""

import subprocess
import sys
from pathlib import Path

from tests.product import Product, running_product


def login_link(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "app.cli.main", "login-link", *options], capture_output=True, text=True
    )


def use(product: Product, link: str) -> str:
    """Open a link, press its button, and return the redirect."""
    import httpx

    with httpx.Client(base_url=product.url, timeout=20) as visitor:
        page = visitor.get(link)
        token = page.text.split('name="csrf_token" value="')[1].split('"')[0]
        form = {"csrf_token": token, "token": link.partition("token=")[2]}
        answer = visitor.post("/login/link", data=form, headers={"Origin": product.url})
        return f"{answer.status_code} {answer.headers.get('location', '')}"


def test_a_link_made_on_the_machine_works_once_while_the_product_runs(tmp_path: Path) -> None:
    with running_product(tmp_path) as product:
        made = login_link("--data", str(tmp_path / "data"), "--url", product.url)
        assert made.returncode == 0, made.stderr
        link = made.stdout.strip()
        assert link.startswith(f"{product.url}/login/link?token=")
        assert use(product, link) == "303 /"
        assert use(product, link) == "401 "
        nobody = login_link("--data", str(tmp_path / "data"), "--user", "nobody")
        assert (nobody.returncode, nobody.stdout) == (1, "")
        assert "--user nobody" in nobody.stderr
        assert len(nobody.stderr.splitlines()) == 1


def test_a_folder_without_a_database_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = login_link("--data", str(tmp_path))
    assert refused.returncode in {1, 2}
    assert len(refused.stderr.splitlines()) == 1
