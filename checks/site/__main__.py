"""Lay the site out and build it, strictly and without a network: ``make site``.

python -m checks.site            # build/site/html/index.html
python -m checks.site --lay-out  # the pages alone: build/site/pages
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from checks.site import navigation
from checks.site.layout import ROOT, lay_out


def main(arguments: list[str]) -> int:
    """The exit status of the build; 1 where its library is missing."""
    settings = navigation.settings()
    pages = lay_out(ROOT / settings["docs_dir"])
    print(f"{len(pages)} files -> {settings['docs_dir']}")
    if "--lay-out" in arguments:
        return 0
    if find_spec("material") is None:
        print("the site needs mkdocs-material, which is not installed: pip install 'eunomia[docs]'")
        return 1
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT)
    if done.returncode == 0:
        print(f"site -> {settings['site_dir']}/index.html        (opens from the disk)")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
