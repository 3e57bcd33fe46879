"""What a device may run networks with: every backend once, imported by the workers that need it and by nobody else."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from eunomia.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from eunomia.serving.devices.network import LoadedNetwork

# (file, cache folder, shapes of free inputs, target time of a block in s, longest network kept whole in s); "cpu" also
# takes what is known of its blocks (``known_s``) and of its content (``key``)
Loader: TypeAlias = "Callable[..., LoadedNetwork]"


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend. ``loader``: ``module:function`` of a ``Loader``; ``needs``: a package that may be missing.

    ``provider``: what ONNX Runtime must have been built with.
    """

    loader: str
    needs: str | None = None
    install: str = ""  # what brings that package, or that provider
    provider: str = ""

    @property
    def here(self) -> bool:
        """Whether all that it needs is installed."""
        if self.needs is not None and importlib.util.find_spec(self.needs) is None:
            return False
        if not self.provider:
            return True
        import onnxruntime as ort

        return self.provider in ort.get_available_providers()


ORT_GPU = "pip install onnxruntime-gpu, in place of onnxruntime"

BACKENDS: dict[str, Backend] = {
    "cpu": Backend("eunomia.serving.devices.network:load_network"),
    "torch": Backend(
        "eunomia.serving.devices.torch.network:load_torch_network", "torch", "pip install 'eunomia[learn]'"
    ),
    "cuda": Backend(
        "eunomia.serving.devices.gpu:load_cuda_network",
        install=ORT_GPU,
        provider="CUDAExecutionProvider",
    ),
    "tensorrt": Backend(
        "eunomia.serving.devices.gpu:load_tensorrt_network",
        install=ORT_GPU,
        provider="TensorrtExecutionProvider",
    ),
}

if TYPE_CHECKING:
    BackendName: TypeAlias = str
else:
    BackendName = Literal[tuple(BACKENDS)]


def loader_of(name: str) -> Loader:
    """The function that loads a network, with its imports. Raises UnknownNameError."""
    if name not in BACKENDS:
        raise UnknownNameError("device backend", name, BACKENDS)
    module, _, function = BACKENDS[name].loader.partition(":")
    found: Loader = getattr(importlib.import_module(module), function)
    return found


def must_be_installed(device: str, name: str) -> None:
    """Raise ConfigError where a device's backend needs a package that is missing: its worker would never start."""
    backend = BACKENDS[name]
    if backend.here:
        return
    what = f"ONNX Runtime's {backend.provider}" if backend.provider else f"the package {backend.needs}"
    raise ConfigError(
        f"device '{device}': backend = \"{name}\" needs {what}, which is not installed: {backend.install}"
    )
