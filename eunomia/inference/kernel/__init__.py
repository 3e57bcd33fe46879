"""The compiled event core: structure of arrays, jitted by numba. Semantics: docs/engine.md."""
