"""Whole-array algorithms, written as Tack kernels: for every device, with the same result on any threads."""

from tack.algorithms.scan import exclusive_scan
from tack.algorithms.sort import sort

__all__ = ["exclusive_scan", "sort"]
