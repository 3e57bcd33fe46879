"""Requests for the small network by hand, and what is left of them."""

from __future__ import annotations

from urllib.parse import unquote

import numpy as np
from tritonclient.grpc import service_pb2 as pb

from eunomia.serving.rpc.front import GrpcFront
from eunomia.serving.rpc.streams import Places
from eunomia.serving.server import Server
from tests.serving.speaking import OIP, Answer

HEALTH = "/grpc.health.v1.Health/"
IMAGE = np.random.default_rng(0).random((1, 3, 64, 64), np.float32)


def request(request_id: str = "7", model: str = "small") -> bytes:
    """That the network answers."""
    found = pb.ModelInferRequest(model_name=model, id=request_id)
    found.inputs.add(name="image", datatype="FP32", shape=IMAGE.shape)
    found.raw_input_contents.append(IMAGE.tobytes())
    return bytes(found.SerializeToString())


def logits(answer: Answer) -> bytes:
    """Of a call that went well."""
    assert (answer.status, answer.head[":status"], answer.head["content-type"]) == (
        0,
        "200",
        "application/grpc",
    )
    (content,) = answer.messages
    found = pb.ModelInferResponse.FromString(content)
    assert found.id == "7" and len(found.raw_output_contents) == 1
    return bytes(found.raw_output_contents[0])


def told(answer: Answer) -> str:
    """Why there is no answer."""
    assert answer.ended and not answer.body and answer.head[":status"] == "200"
    return unquote(answer.why)


def places(server: Server) -> Places:
    """For streams."""
    assert server._grpc is not None
    front = server._grpc._methods[f"{OIP}ModelStreamInfer"].__self__  # type: ignore[attr-defined]
    assert isinstance(front, GrpcFront)
    return front._serving._places


def at_rest(server: Server) -> bool:
    """Nobody holds anything."""
    here = places(server)
    held = (server.service.bodies.held, here.known.held, here.strange.held, here.watches.held)
    return not any(held) and not server.service.limits.active("gold")
