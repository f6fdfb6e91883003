"""Running sums: each block is added up, the totals are scanned, and each block is scanned from its total."""

from __future__ import annotations

from typing import Any

from tack.algorithms.arguments import checked
from tack.lang import types
from tack.lang.array import Array, new_array
from tack.lang.kernel import kernel

# Elements that one iteration adds up, on devices with few threads and with many; fixed, so that floats round alike on
# any number of threads.
FEW_THREADS, MANY_THREADS = 16_384, 256


@kernel
def _block_totals(values: Any, totals: Any, block: types.i64) -> None:  # type: ignore[valid-type]
    for b in range(totals.shape[0]):
        start = b * block
        total = values[start]
        for i in range(start + 1, min(start + block, values.shape[0])):
            total += values[i]
        totals[b] = total


@kernel
def _scan_blocks(values: Any, out: Any, before: Any, block: types.i64) -> None:  # type: ignore[valid-type]
    for b in range(before.shape[0]):
        total = before[b]
        for i in range(b * block, min((b + 1) * block, values.shape[0])):
            value = values[i]
            out[i] = total
            total += value


def exclusive_scan(values: Any, out: Array | None = None) -> Array:
    """The sum of all elements before each one: ``out[i] = values[0] + … + values[i - 1]``, ``out[0] = 0``.

    Integers wrap at the width of the elements, as ``+`` does. Floats are added block by block, so that the result does
    not depend on the number of threads; it may differ in its last bits from adding one after another.

    Parameters
    ----------
    values : array of shape (n,), any dtype
        A Tack array, or what `tack.asarray` takes.
    out : tack.Array of shape (n,), optional
        Where the result goes, of the same dtype and device; may be `values` itself, or overlap it. A new array if None.

    Returns
    -------
    tack.Array of shape (n,)
        `out`, of the dtype of the values.

    Raises
    ------
    TypeError
        If the elements are vectors or matrices, or `out` has another dtype.
    ValueError
        If the values are not one-dimensional, or `out` has another length or device, or is read-only.

    Examples
    --------
    >>> tack.algorithms.exclusive_scan(tack.asarray([3, 1, 4, 1])).numpy().tolist()
    [0, 3, 4, 8]
    """
    source, target = checked("exclusive_scan", values, out)
    if source.size:
        with source.device:
            _scan(source, target, FEW_THREADS if source.device.supports("serial_workgroups") else MANY_THREADS)
    return target


def _scan(source: Array, target: Array, block: int) -> None:
    blocks = -(-source.size // block)
    before = new_array((blocks,), source.dtype, source.device)
    if blocks > 1:
        _block_totals(source, before, block)
        _scan(before, before, block)
    _scan_blocks(source, target, before, block)
