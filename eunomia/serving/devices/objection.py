"""What ONNX Runtime objects to in an input, for who sent it.

A network has answered its trial before it serves, or takes no made-up input. On a processor nothing but the input
differs from one run to the next. So what a node refuses there is the input's: an index beyond a table, a division by
zero, a shape that does not fit. Lack of memory is told apart (``memory``), and so are the runtime's own failures, by
its exception's class: an execution provider, an engine or a device that failed, a kernel that is missing. With bound
tensors the runtime raises one class for everything, but on a processor none of those arises there. On a GPU a failed
kernel and a wrong input look alike, so nobody is blamed.
"""

from __future__ import annotations

from eunomia.serving.devices.messages import Message
from eunomia.serving.protocol.errors import InputFailed, InputRefused, NoRoom, ServingError

OWN = ("EPFail", "EngineError", "DeviceReset", "NotImplemented", "ModelRequiresCompilation")


class Objection(Exception):
    """The runtime refuses this input; its text is the runtime's own."""


def is_own(error: Exception) -> bool:
    """Whether the runtime itself failed, whatever the input."""
    return isinstance(error, MemoryError) or type(error).__name__ in OWN


def objection(error: Exception) -> Exception:
    """Of an error of a run on a processor: what is to be raised for it."""
    return error if is_own(error) else Objection(str(error))


def failure(network: str, message: Message) -> ServingError:
    """Why a run has no result, from what the device says of it."""
    if message.get("input"):
        return InputRefused(f"network '{network}' refuses this input: {message['why']}")
    why = f"network '{network}' failed: {message['why']}"
    return NoRoom(why) if message.get("memory") else InputFailed(why)
