"""The server's certificate, read before anything slow is done, and what a handshake with it costs."""

from __future__ import annotations

import contextlib
import ssl
import time
from pathlib import Path

from eunomia.core.errors import ConfigError
from eunomia.serving.fronts.few_records import FewRecords

SEALED = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM"  # of TLS 1.2, with a key of each connection's own


def tls_context(files: tuple[Path, Path], protocol: str = "") -> ssl.SSLContext:
    """TLS 1.2 and later, with a certificate and its private key; raises ConfigError naming file and key.

    ``protocol``: what clients are offered on top of it; "" = nothing is said.
    """
    for key, file in zip(("tls_cert", "tls_key"), files, strict=True):
        try:
            text = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{key}: {file} cannot be read: {error.strerror}; give a PEM file") from None
        if b"-----BEGIN " not in text:
            what = "certificate" if key == "tls_cert" else "private key"
            raise ConfigError(f"{key}: {file} holds no {what} in PEM form; give a file with -----BEGIN ...")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = FewRecords
    if protocol:
        context.set_alpn_protocols([protocol])
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(SEALED)
    try:
        context.load_cert_chain(*files, password=lambda: "")  # else OpenSSL asks for one
    except (OSError, ssl.SSLError) as error:
        cert, key_file = files
        raise ConfigError(
            f"tls_cert = {cert} and tls_key = {key_file} cannot be used together: {error}; "
            "give a certificate with its own unencrypted key"
        ) from None
    return context


def handshake_s(context: ssl.SSLContext) -> float:
    """Processor time of this thread that the server's side of one takes: from 0.2 ms to 5, by the kind of its key."""
    return min(_handshake_s(context) for _ in range(3))


def _handshake_s(context: ssl.SSLContext) -> float:
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    asked, answered, took_s = ssl.MemoryBIO(), ssl.MemoryBIO(), 0.0
    client = stranger.wrap_bio(answered, asked)
    server = context.wrap_bio(asked, answered, server_side=True)
    for _ in range(3):  # hello, hello and certificate, done
        _steps(client)
        began_s = time.thread_time()
        _steps(server)
        took_s += time.thread_time() - began_s
    return took_s


def _steps(side: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
