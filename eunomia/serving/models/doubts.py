"""What the log says of a network that was loaded: what of a file for Triton does not hold, and what nobody has said."""

from __future__ import annotations

from collections.abc import Iterator

from eunomia.serving.devices.messages import Ports
from eunomia.serving.models.beside import Beside
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.batches import has_batches


def doubts(entry: Entry, ports: Ports, said: Beside) -> Iterator[str]:
    """A sentence for each; ``ports``: as clients see them."""
    known = {port["name"]: port["datatype"] for port in (*ports["inputs"], *ports["outputs"])}
    for name, datatype in said.types.items():
        if name not in known:
            yield f"config.pbtxt names '{name}', and the network has no such tensor; it has {', '.join(known)}"
        elif datatype != known[name]:
            yield f"config.pbtxt says that '{name}' is {datatype}; the network's is {known[name]}, and that holds"
    if said.most_rows and has_batches(ports):
        yield f"max_batch_size {said.most_rows} of config.pbtxt is what clients hear; more rows are taken, too"
    elif said.most_rows:
        yield f"max_batch_size {said.most_rows} of config.pbtxt does not hold: the network takes no batches"
    for name in ports.get("unranked", ()):
        yield (
            f"its file does not say how many axes input '{name}' has, and requests with one axis alone are taken: give "
            f"its sizes as shapes in {entry.options}"
        )
