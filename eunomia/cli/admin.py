"""Speaking with a running server as its administrator."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from typing import Annotated, Any

import typer

from eunomia.core.errors import ConfigError, OutputError

LIMIT_BYTES = 1024**3
Url = Annotated[str, typer.Argument(metavar="URL", help="The server, e.g. http://127.0.0.1:8000")]
KEYLESS = (
    "--key-env NAME: the environment variable that holds it; for the first one, add to the tenants of the server's "
    'file { name = "operator", role = "admin", key_sha256 = ["..."] } with the hash that `eunomia serve key` '
    "prints, and start it again"
)
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", metavar="NAME", help="Environment variable with an administrator's key."),
]


def ask(
    url: str,
    path: str,
    key_env: str | None,
    content: object = None,
    method: str | None = None,
    timeout_s: float = 60.0,
) -> Any:
    """One JSON request; raises ConfigError for a wrong URL or key variable, OutputError when the server refuses."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"'{url}' is no URL of a server; it starts with http:// or https://")
    headers = {}
    if key_env is not None:
        if not os.environ.get(key_env):
            raise ConfigError(f"the environment variable {key_env} is not set")
        headers["Authorization"] = f"Bearer {os.environ[key_env]}"
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return json.loads(answer.read(LIMIT_BYTES))
    except urllib.error.HTTPError as error:
        hint = f" ({KEYLESS})" if error.code == 401 and key_env is None else ""
        raise OutputError(f"{url} refuses: {_sentence(error.read(2000))}{hint}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise OutputError(f"{url} does not answer: {getattr(error, 'reason', error)}") from None
    except http.client.HTTPException:
        raise OutputError(f"{url} does not speak HTTP; is that the gRPC port?") from None
    except ValueError:
        raise OutputError(f"{url} answers something that is not JSON: is it a Eunomia server?") from None


def _sentence(body: bytes) -> str:
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
