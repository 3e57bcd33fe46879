"""Which releases of Python keep what clients do not read without bound, where uvloop is missing (CVE-2024-12254)."""

from __future__ import annotations

import pytest

from eunomia.cli.serve import bounded_from


@pytest.mark.parametrize("release, fixed", [
    ((3, 11, 7), None), ((3, 12, 0), "3.12.9"), ((3, 12, 8), "3.12.9"), ((3, 12, 9), None), ((3, 13, 1), "3.13.2"),
    ((3, 13, 2), None), ((3, 14, 0), None),
])  # fmt: skip
def test_old_releases_are_named_with_the_first_good_one(
    release: tuple[int, int, int], fixed: str | None
) -> None:
    assert bounded_from(*release) == fixed
