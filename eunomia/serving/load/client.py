"""Stock tritonclient, HTTP or gRPC, on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.devices.messages import Port, Ports
from eunomia.serving.load.plan import LoadStream

AT_ONCE = 50  # questions to a server, who the owner of a key is


class Client(Protocol):
    """Sends one request of a stream and waits for its answer; raises when there is none."""

    async def send(self, stream: int) -> None:
        """One request."""

    async def close(self) -> None:
        """Let go of the connections."""


class TritonClient:
    """Either protocol of a server that speaks the Open Inference Protocol.

    Inputs are seeded random numbers in the network's own shapes, free sizes set to 1 (``shapes`` says
    otherwise), made once per network: the generator shall cost as little as it can. ``ca``: speak TLS, and trust the
    certificates of that file; an empty text, those of this machine. Raises ConfigError for a URL.
    """

    def __init__(
        self, url: str, protocol: str, streams: Sequence[LoadStream], timeout_s: float, ca: str | None = None
    ) -> None:
        if "://" in url or url.startswith("/") or not _port_is_one(url, protocol):
            raise ConfigError(
                f"'{url}' is no address to send requests to; write HOST:PORT, as 127.0.0.1:8001"
            )
        self._streams, self._timeout_s = streams, timeout_s
        if protocol == "http":
            import tritonclient.http.aio as module
        else:
            import tritonclient.grpc.aio as module
        more: dict[str, object] = (
            {"conn_limit": 10_000, "conn_timeout": timeout_s} if protocol == "http" else {}
        )
        if ca is not None:
            trust = trusting(ca)
            more |= {"ssl": True} | (trust if protocol == "http" else {"root_certificates": ca or None})
        self._url, self._http, self._module = url, protocol == "http", module
        self._client = module.InferenceServerClient(url, **more)
        self._inputs: dict[str, list[object]] = {}
        self.guessed: dict[
            str, dict[str, list[int]]
        ] = {}  # shapes with free sizes set to 1, by network and input

    async def prepare(self, shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        """Ask for the networks' inputs and make them; raises OutputError when the server refuses or does not answer,
        ConfigError for a shape of no input."""
        rng, names = np.random.default_rng(seed), dict[str, None]()
        for stream in self._streams:
            if stream.model in self._inputs:
                continue
            try:
                metadata = await self._metadata(stream)
            except Exception as error:  # whatever the client or the network under it raises
                raise OutputError(self._refused(stream, " ".join(str(error).split())[:600])) from None
            ports = metadata.get("inputs", [])  # over gRPC an empty list is left out, and an empty shape, too
            self._inputs[stream.model] = [self._input(port, shapes, rng) for port in ports]
            names |= {port["name"]: None for port in ports}
            if free := {
                port["name"]: _sizes(port) for port in ports if _free(port) and port["name"] not in shapes
            }:
                self.guessed[stream.model] = free
        if strange := [name for name in shapes if name not in names]:
            raise ConfigError(
                f"shapes names '{strange[0]}', which is no input; the inputs are: {', '.join(names)}"
            )

    async def owners(self) -> list[str]:
        """The tenant of each stream, as the server names it; of other servers, as the stream does."""
        asked = list({self._who(stream): stream for stream in self._streams}.values())
        found = dict[str, str]()
        for n in range(0, len(asked), AT_ONCE):
            some = asked[n : n + AT_ONCE]
            names = await asyncio.gather(*map(self._owner, some))
            found |= {self._who(stream): name for stream, name in zip(some, names, strict=True)}
        return [found[self._who(stream)] or stream.tenant for stream in self._streams]

    @staticmethod
    def _who(stream: LoadStream) -> str:
        return f"key {stream.key}" if stream.key else stream.tenant

    async def _owner(self, stream: LoadStream) -> str:
        more = {} if self._http else {"as_json": True}
        try:
            answer = await self._client.get_model_config(stream.model, headers=self._headers(stream), **more)
            name = answer.get("config", answer)["parameters"]["tenant"]["string_value"]
        except Exception:  # whatever the client raises; Triton has no tenants
            return ""
        return str(name)

    def _refused(self, stream: LoadStream, why: str) -> str:
        """What may be wrong, in words."""
        if "API key" in why:
            who = (
                f"the key {stream.key[:8]}..." if stream.key else f"tenant '{stream.tenant}', without a key,"
            )
            return (
                f"{who} is not let in: {why}; put the key into an environment variable and name it "
                "(key_env in the file, --key-env with an address)"
            )
        protocol = "HTTP" if self._http else "gRPC"
        asked = f"model '{stream.model}' cannot be asked at {self._url} over {protocol}"
        known = (
            "model" in why.lower() and stream.model in why
        ) or "no tenant" in why  # the server has answered
        return (
            f"{asked}: {why}" if known else f"{asked} (is that its {protocol} address, as HOST:PORT?): {why}"
        )

    async def send(self, stream: int) -> None:
        """One request."""
        chosen = self._streams[stream]
        parameters = {"slo_ms": chosen.deadline_s * 1e3} if chosen.send_deadline else {}
        more: dict[str, object] = {} if self._http else {"client_timeout": self._timeout_s}
        await self._client.infer(
            chosen.model,
            self._inputs[chosen.model],
            headers=self._headers(chosen),
            parameters=parameters,
            **more,
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.close()

    async def _metadata(self, stream: LoadStream) -> Ports:
        more = {} if self._http else {"as_json": True}
        ports: Ports = await self._client.get_model_metadata(
            stream.model, headers=self._headers(stream), **more
        )
        return ports

    def _headers(self, stream: LoadStream) -> dict[str, str]:
        return {"authorization": f"Bearer {stream.key}"} if stream.key else {"x-tenant-id": stream.tenant}

    def _input(self, port: Port, shapes: Mapping[str, Sequence[int]], rng: np.random.Generator) -> object:
        from eunomia.serving.devices.messages import DATATYPES

        shape = list(shapes.get(port["name"], _sizes(port)))
        dtype = DATATYPES[port["datatype"]]
        array = rng.random(shape, np.float32).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype)
        tensor = self._module.InferInput(port["name"], shape, port["datatype"])
        tensor.set_data_from_numpy(array)
        return tensor


def _free(port: Port) -> bool:
    return any(int(size) < 0 for size in port.get("shape", []))


def _sizes(port: Port) -> list[int]:
    """Free ones are 1."""
    return [max(int(size), 1) for size in port.get("shape", [])]


def _port_is_one(url: str, protocol: str) -> bool:
    """Over HTTP it may be left out, and a path may follow."""
    host, found, port = url.partition("/")[0].rpartition(":")
    if not found or port.endswith("]"):  # an IPv6 address
        return protocol == "http"
    return host != "" and port.isdecimal() and 0 < int(port) < 65536


def trusting(ca: str) -> dict[str, object]:
    """What the client over HTTP wants of TLS. Raises ConfigError for a file without certificates."""
    import ssl

    try:
        return {"ssl_context": ssl.create_default_context(cafile=ca or None)}
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls_ca: '{ca}' holds no certificate in PEM form: {error}") from None
