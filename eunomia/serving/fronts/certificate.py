"""The server's certificate, read before anything slow is done."""

from __future__ import annotations

import ssl
from pathlib import Path

from eunomia.core.errors import ConfigError


def tls_context(files: tuple[Path, Path]) -> ssl.SSLContext:
    """TLS 1.2 and later, with a certificate and its private key; raises ConfigError naming file and key."""
    for key, file in zip(("tls_cert", "tls_key"), files, strict=True):
        try:
            text = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{key}: {file} cannot be read: {error.strerror}; give a PEM file") from None
        if b"-----BEGIN " not in text:
            what = "certificate" if key == "tls_cert" else "private key"
            raise ConfigError(f"{key}: {file} holds no {what} in PEM form; give a file with -----BEGIN ...")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(*files, password=lambda: "")  # else OpenSSL asks for one
    except (OSError, ssl.SSLError) as error:
        cert, key_file = files
        raise ConfigError(
            f"tls_cert = {cert} and tls_key = {key_file} cannot be used together: {error}; "
            "give a certificate with its own unencrypted key"
        ) from None
    return context
