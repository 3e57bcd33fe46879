"""Pages as axe-core judges them in a real Chromium, in light and dark, at the width of a desktop and of a phone.

axe-core comes with the package ``axe-core-python`` of the test extra; ``EUNOMIA_AXE=FILE`` takes another one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

VIEWS = (("light", 1400), ("dark", 390))
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update")  # fmt: skip
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.html}`))),
  (error) => done([String(error)]));
"""


def source() -> str:
    """The text of axe-core; skips where there is none."""
    found = importlib.util.find_spec("axe_core_python")
    folder = Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None
    file = os.environ.get("EUNOMIA_AXE") or (folder and folder / "axe.min.js")
    if not file:
        pytest.skip("axe-core is not installed: pip install axe-core-python")
    return Path(file).read_text(encoding="utf-8")


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """A browser with a fresh profile; skips where there is none."""
    selenium = pytest.importorskip("selenium.webdriver")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("no Chromium here")
    options = selenium.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with selenium.Chrome(options=options, service=selenium.ChromeService(executable_path=driver)) as browser:
        browser.set_script_timeout(PATIENCE_S)
        yield browser


def view(browser: Any, scheme: str, width: int) -> None:
    """What the reader's system prefers, and how wide the window is."""
    preferred = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def violations(browser: Any, address: str | None = None) -> list[str]:
    """Of a page, or of the one that is open, in every view: the rule and the element; whether it scrolls sideways."""
    text, found = source(), []
    for scheme, width in VIEWS:
        view(browser, scheme, width)
        if address:
            browser.get(address)
        browser.execute_script(text)
        found += [f"{scheme}, {width} wide: {one}" for one in browser.execute_async_script(RUN)]
        root = "document.documentElement"
        if browser.execute_script(f"return {root}.scrollWidth > {root}.clientWidth"):
            found.append(f"{scheme}, {width} wide: the page is wider than the window")
    return found
