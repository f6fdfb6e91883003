"""Three-dimensional textures, sampled in software: a data-oriented class with its snapshot and a device function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tack.lang.array import Array, new_array
from tack.lang.data_oriented import data_oriented
from tack.lang.func import func
from tack.lang.host_cast import HostArray, cast_values
from tack.lang.intrinsics import PUBLIC
from tack.lang.types import f32, i64

if TYPE_CHECKING:
    from tack.lang.array import ArrayDevice

lower, higher = PUBLIC["min"], PUBLIC["max"]


@func
def _position(coordinate: Any, extent: Any) -> Any:
    """Where a coordinate on [0, 1] lies among the centres of `extent` texels, clamped to the first and the last."""
    among: f32 = f32(coordinate) * extent - 0.5  # type: ignore[valid-type]
    return lower(higher(among, 0.0), f32(extent - 1))


@func
def _between(a: Any, b: Any, t: Any) -> Any:
    """From `a` to `b`; at `t` = 0 it is `a`, whatever `b` is: an infinity or NaN times zero would be NaN."""
    return a if t == 0 else a * (1 - t) + b * t


@data_oriented
class Texture3D:
    """A snapshot of a volume of f32 numbers that kernels sample; made by `tack.texture3d`.

    Kernels and device functions take it as an argument, or as an attribute of an instance, and call
    ``tex.sample(u, v, w)``. Its size is not part of a kernel's key.

    Attributes
    ----------
    shape
        ``(W, H, D)``: the number of texels along u, v and w.
    device
        The device whose memory holds the snapshot.

    Examples
    --------
    >>> import numpy as np
    >>> tex = tack.texture3d(np.arange(8.0), shape=(2, 2, 2))
    >>> @tack.kernel
    ... def middle(tex, out):
    ...     for i in range(1):
    ...         out[i] = tex.sample(0.5, 0.5, 0.5)
    >>> out = tack.zeros(1)
    >>> middle(tex, out)
    >>> out[0]
    3.5
    """

    def __init__(self, source: Any, shape: tuple[int, int, int], device: ArrayDevice) -> None:
        self._source = source
        self._texels: Array = new_array(shape[::-1], f32, device)
        self.update()

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(W, H, D)``: the number of texels along u, v and w."""
        depth, height, width = self._texels.shape
        return width, height, depth

    @property
    def device(self) -> Any:
        """The device whose memory holds the snapshot."""
        return self._texels.device

    def update(self) -> None:
        """Take the snapshot again from the array that the texture was made from; waits for the kernels before it.

        Raises
        ------
        ValueError
            If that array no longer has as many elements as the texture.
        """
        values = source_values(self._source, self.shape)
        self._texels._store(cast_values(values, f32).reshape(self._texels.shape))

    def __repr__(self) -> str:
        return f"<tack.Texture3D {self.shape} f32 on {self.device.name}>"

    @func
    def sample(self, u: Any, v: Any, w: Any) -> Any:
        """The trilinear value at a point of the unit cube, f32.

        Parameters
        ----------
        u, v, w : numbers
            Converted to f32. Texel ``i`` of ``W`` has its centre at ``(i + 0.5) / W``. Outside of the centres the value
            is that of the nearest edge, infinities included; a NaN counts as 0.
        """
        width, height, depth = self._texels.shape[2], self._texels.shape[1], self._texels.shape[0]
        x, y, z = _position(u, width), _position(v, height), _position(w, depth)
        # The second `min` matters only to extents that f32 cannot hold.
        x0, y0, z0 = lower(i64(x), width - 1), lower(i64(y), height - 1), lower(i64(z), depth - 1)
        x1, y1, z1 = lower(x0 + 1, width - 1), lower(y0 + 1, height - 1), lower(z0 + 1, depth - 1)
        tx, ty, tz = x - x0, y - y0, z - z0
        near_low = _between(self._texels[z0, y0, x0], self._texels[z0, y0, x1], tx)
        near_high = _between(self._texels[z0, y1, x0], self._texels[z0, y1, x1], tx)
        far_low = _between(self._texels[z1, y0, x0], self._texels[z1, y0, x1], tx)
        far_high = _between(self._texels[z1, y1, x0], self._texels[z1, y1, x1], tx)
        return _between(_between(near_low, near_high, ty), _between(far_low, far_high, ty), tz)


def source_values(source: Any, shape: tuple[int, int, int]) -> HostArray:
    """The elements of what a texture is made from, on the host.

    Raises
    ------
    ValueError
        If their number is not W * H * D.
    """
    values = np.asarray(source)
    if values.size != math.prod(shape):
        raise ValueError(
            f"tack.texture3d: an array of shape {values.shape} has {values.size} elements, and a texture of shape "
            f"{shape} takes {math.prod(shape)}"
        )
    return values
