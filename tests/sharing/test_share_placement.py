"""Placement of shares: labels by hand, the rules as properties, devices against an exhaustive search."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError
from eunomia.sharing.shares import ShareSpec
from eunomia.sharing.shares.place import NEW, Labelled, Shared, place, place_all, read_clients
from tests.cli.shell import Shell


def _of(request: float, name: str = "x", memory: int | None = None, **labels: str) -> Labelled:
    return Labelled(ShareSpec(name, request, memory_bytes=memory), **labels)


def test_the_tightest_device_takes_it_by_hand() -> None:
    half, most, little = Shared(None, [_of(0.5)]), Shared(None, [_of(0.7)]), Shared(None, [_of(0.1)])
    assert place(_of(0.3), [half, most, little], 1) == 1
    assert place(_of(0.4), [half, most, little], 1) == 0
    assert place(_of(0.95), [half, most, little], 1) == NEW
    assert place(_of(0.95), [half, most, little], 0) is None
    assert place(_of(0.3, affinity="a"), [half, most, little], 1) == 2  # the group may grow


def test_labels_by_hand() -> None:
    home = Shared(None, [_of(0.5, affinity="a", anti_affinity="b")])
    assert place(_of(0.2, affinity="a"), [Shared(), home], 1) == 1
    assert place(_of(0.6, affinity="a"), [Shared(), home], 1) is None
    assert place(_of(0.2, anti_affinity="b"), [home], 1) == NEW
    ours, theirs, open_ = (Shared(None, [_of(0.5, exclusion=e)]) for e in ("us", "them", ""))
    assert place(_of(0.2), [ours, theirs, open_], 0) == 2
    assert (
        place(_of(0.2, exclusion="them"), [ours, theirs, open_], 0) == 1
    )  # the first is dropped, the rest is read
    assert place(_of(0.2), [ours, theirs], 0) is None
    assert place(_of(0.2), [ours, theirs], 0, exclusion=False) == 0
    assert place(_of(0.2, memory=3), [Shared(5, [_of(0.1, memory=3)])], 1) == NEW


LABEL = st.sampled_from(["", "", "a", "b"])
CLIENT = st.builds(
    lambda sixteenths, memory, *labels: _of(
        sixteenths / 16, memory=memory, affinity=labels[0], anti_affinity=labels[1], exclusion=labels[2]
    ),
    st.integers(1, 16), st.integers(1, 8), LABEL, LABEL, LABEL,
)  # fmt: skip


@given(clients=st.lists(CLIENT, max_size=12), devices=st.integers(1, 6))
def test_no_rule_is_ever_broken(clients: list[Labelled], devices: int) -> None:
    found = place_all(clients, devices, 10)
    assert all(n is None or n < devices for n in found)
    for n in range(devices):
        on = [client for client, where in zip(clients, found, strict=True) if where == n]
        assert sum(c.spec.request for c in on) <= 1.0 and sum(c.spec.memory_bytes or 0 for c in on) <= 10
        assert len({c.exclusion for c in on}) <= 1
        apart = [c.anti_affinity for c in on if c.anti_affinity]
        assert len(apart) == len(set(apart))
    for label in "ab":
        homes = {n for c, n in zip(clients, found, strict=True) if c.affinity == label and n is not None}
        assert len(homes) <= 1


def test_devices_against_an_exhaustive_search() -> None:
    """Tightest fit needs at most 1.7 times the least number of devices (Johnson et al., 1974)."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        requests = rng.integers(2, 12, 6) / 16
        found = place_all([_of(float(r)) for r in requests], 6)
        least = min(
            len(set(where))
            for where in itertools.product(range(6), repeat=6)
            if np.bincount(where, requests).max() <= 1.0
        )
        assert least <= len(set(found)) <= 1.7 * least


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[client.a]\nrequest = 0.3\nmemory_bytes = 5\nexclusion = 'us'\n")
    assert read_clients(file) == [_of(0.3, "a", 5, exclusion="us")]
    for text, says in {
        "": "no section", "[client.a]": "takes request", "[client.a]\nrequest = 'x'": "are numbers",
        "[client.a]\nrequest = 0.1\naffinity = 1": "labels are texts", "[client.a]\nrequest = 2": "request is 2.0",
        "[client.a]\nrequest = 0.1\nrequests = 1": "takes request", "[": "not a TOML file",
    }.items():  # fmt: skip
        file.write_text(text)
        with pytest.raises(ConfigError, match=says):
            read_clients(file)
    with pytest.raises(ConfigError, match="may hold 20 bytes; a device has 10"):
        place_all([_of(0.1, "x", 20)], 1, 10)


def test_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    file = tmp_path / "c.toml"
    file.write_text("[client.a]\nrequest = 0.3\nexclusion = 'us'\n[client.b]\nrequest = 0.3\n")
    done = shell("shares", "place", file)
    assert done.code == 0 and "2 devices, 1 without exclusion labels" in done.out, done.err
