"""Gymnasium environments over the compiled engine."""
