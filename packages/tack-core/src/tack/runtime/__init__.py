"""Devices: memory, compiling, launching and caching."""
