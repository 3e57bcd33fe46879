"""Verbs that need more than the light core say what to install."""

from __future__ import annotations

import pytest

from tests import children

WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
sys.argv = ["eunomia", *sys.argv[2:]]
from eunomia.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("absent", "words", "extra"),
    [
        ("aiohttp,onnxruntime,sqlalchemy", ["serve", "demo"], "serve"),
        ("tritonclient", ["load", "127.0.0.1:1", "--model", "m"], "serve"),
    ],
)
def test_the_extra_is_named(absent: str, words: list[str], extra: str) -> None:
    done = children.run(children.python("-c", WITHOUT, absent, *words))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"pip install 'eunomia[{extra}]'" in done.stderr
