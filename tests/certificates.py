"""A certificate that signs itself, as tests of TLS need one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import children


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Certificate and key, in PEM; skips the test where openssl is not installed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = folder / "c.pem", folder / "k.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    names = ["-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = [openssl, "req", "-x509", *curve, "-nodes", *names, "-keyout", key, "-out", certificate]
    children.run(made, check=True)
    return certificate, key
