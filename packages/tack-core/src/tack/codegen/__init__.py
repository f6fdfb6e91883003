"""Typed IR to text. Knows no device and runs nothing."""
