"""Plain data: what JSON and TOML hold, before a type says more."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
