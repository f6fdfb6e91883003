"""Making textures."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tack.lang.array import Array
from tack.lang.texture import Texture3D
from tack.runtime.device import Device, current_device
from tack.runtime.device import device as as_device


def texture3d(array: Any, shape: Sequence[int], *, device: str | Device | None = None) -> Texture3D:
    """A texture with a snapshot of an array, for trilinear sampling in kernels.

    Parameters
    ----------
    array
        A `tack.Array`, or anything that `numpy.asarray` takes, of numbers and of any shape with W * H * D elements, in
        C order: x is fastest. They convert to f32. The texture keeps it for `Texture3D.update`.
    shape
        ``(W, H, D)``.
    device
        A name or a `tack.Device`; by default that of `array`, else the current device.

    Raises
    ------
    TypeError
        If `shape` is not three integers, or the elements are not numbers.
    ValueError
        If an extent is not positive, or the number of elements is not W * H * D.

    Examples
    --------
    >>> tack.texture3d(np.zeros((4, 3, 2)), shape=(2, 3, 4))
    <tack.Texture3D (2, 3, 4) f32 on cpu>
    """
    try:
        extents = tuple(map(operator.index, shape))
    except TypeError:
        extents = ()
    if len(extents) != 3:
        raise TypeError(f"tack.texture3d: the shape is three integers (W, H, D), not {shape!r}")
    width, height, depth = extents
    if min(extents) <= 0:
        raise ValueError(f"tack.texture3d: the extents are positive, not {extents}")
    if device is not None:
        target = as_device(device)
    else:
        target = array.device if isinstance(array, Array) else current_device()
    return Texture3D(array, (width, height, depth), target)
