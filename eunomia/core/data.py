"""Plain data: what JSON and TOML hold, before a type says more."""

from __future__ import annotations

from typing import Any, TypeAlias

Data = dict[str, Any]  # read by those who know its keys
Json: TypeAlias = dict[str, object]  # written, passed on, or read with a check of every value
