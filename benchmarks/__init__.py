"""Tack beside C in one run, one file a workload; ``python -m benchmarks --help``."""
