"""Take the pictures of the README and the documentation in a real browser, at the same places."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from bench_page import chromium, workbench
from playwright.sync_api import Page

IMAGES = Path(__file__).parent.parent / "docs" / "images"


def open_at(page: Page, link: str, fragment: str) -> None:
    page.goto("about:blank")
    page.goto(link + fragment.replace("#", "&"))
    page.wait_for_selector("html[data-ready=ready]")
    page.wait_for_timeout(400)  # the mark on new rows fades


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with workbench() as link, chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000}, device_scale_factor=1)
        open_at(page, link, "#s=notes-room&scene=0&step=37&tab=why")
        page.screenshot(path=IMAGES / "workbench.png")
        open_at(page, link, "#s=bait-attack&scene=0&step=30&tab=disclosure")
        page.locator("#bait-1").click()
        page.locator("#details").screenshot(path=IMAGES / "workbench-disclosure.png")
        dark = browser.new_page(
            viewport={"width": 1400, "height": 1000}, color_scheme="dark", device_scale_factor=1
        )
        open_at(dark, link, "#s=signed-manifest&scene=0&step=42&tab=record")
        dark.locator("#lace-1-rules").click()
        dark.wait_for_timeout(300)
        dark.screenshot(path=IMAGES / "workbench-dark.png")
    for image in sorted(IMAGES.glob("workbench*.png")):
        print(f"docs/images/{image.name}: {image.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
