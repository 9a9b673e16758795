"""The time from the acknowledgement of a change until an open page in Chromium shows it. Ours only.

`python -m benchmarks.open_page` starts the product and prints the median and the maximum of a hundred changes.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGUMENTS, chromium_program
from tests.product import Product, running_product

CHANGES = 100
PAUSE_SECONDS = 0.35  # separates the changes, as if a person made them

WATCH = """([place, text]) => {
  window.shownAt = new Promise((resolve, reject) => {
    window.setTimeout(() => reject(new Error(`${text} was not shown within 30 s`)), 30000);
    const look = () => {
      if (!document.querySelector(place)?.textContent.includes(text)) return false;
      resolve(performance.timeOrigin + performance.now());
      return true;
    };
    if (!look()) {
      const observer = new MutationObserver(() => look() && observer.disconnect());
      observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    }
  });
}"""


def milliseconds_until_shown(product: Product, page: Page, place: str, names: list[str]) -> list[float]:
    """Create a topic per name. Return the ms from each acknowledgement until `place` shows the name, at least 0."""
    found = []
    for name in names:
        page.evaluate(WATCH, [place, name])
        status, body = product.call(
            "POST", f"{product.cluster_path}/topics", {"topic_name": name, "partitions_count": 1}
        )
        acknowledged_at = time.time() * 1000
        assert status == 201, body
        found.append(max(0.0, page.evaluate("window.shownAt") - acknowledged_at))
        time.sleep(PAUSE_SECONDS)
    return found


def main() -> int:
    """Measure the dashboard and the list of topics."""
    with (
        tempfile.TemporaryDirectory(prefix="conclave-bench-") as folder,
        sync_playwright() as playwright,
        running_product(Path(folder)) as product,
    ):
        browser = playwright.chromium.launch(executable_path=chromium_program(), args=ARGUMENTS)
        page = browser.new_page(base_url=product.url)
        page.goto(product.login_link)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{product.url}/")
        for path, place in (("/", "#dashboard"), ("/topics?q=shown-top", "#topics")):
            page.goto(path)
            names = [f"shown-{place[1:4]}-{number:03}" for number in range(CHANGES // 2)]
            took = milliseconds_until_shown(product, page, place, names)
            print(f"{path}: p50 {statistics.median(took):.0f} ms, worst {max(took):.0f} ms of {len(took)}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
