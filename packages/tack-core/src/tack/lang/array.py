"""Arrays: C-contiguous memory of one device, and the plain words that a launch reads from them."""

from __future__ import annotations

import array
import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tack.lang.native_type import native_type
from tack.lang.types import DType, VecType, as_element_type, convert_value, number_type, shape_of

# Bits of `Array._key` beside the code of the element type and rank << 8.
READ_ONLY = 1 << 16  # kernels must not store
MISALIGNED = 1 << 17  # NumPy memory that is not aligned to its elements: no atomics
DEVICE_SHIFT = 20  # from here on the number of the device, so that arrays of two devices never have one key
DEVICE_MASK = 0xFF << DEVICE_SHIFT

_LEGACY_DEFAULT_STREAM = 1  # as the CUDA array interface numbers it


class _HostBuffer:
    """Host memory described to NumPy: a view made of it keeps it, and so the memory's owner, alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, array: Array) -> None:
        self.owner = array._owner
        self.__array_interface__ = {
            "version": 3,
            "shape": array._shape + array._parts,
            "typestr": array._dtype.numpy.str,
            "data": (array._data, bool(array._key & READ_ONLY)),
        }


if TYPE_CHECKING:
    from typing import Protocol

    from tack.lang.host_cast import HostArray

    class ArrayMemory(Protocol):
        """What an array needs of its device's backend."""

        capabilities: frozenset[str]
        dlpack_device: tuple[int, int] | None
        supports_device_reductions: bool

        def allocate(self, nbytes: int) -> tuple[int, Any]: ...
        def upload(self, address: int, source: HostArray) -> None: ...
        def download(self, address: int, target: HostArray) -> None: ...
        def fill(self, address: int, cell: HostArray, count: int) -> None: ...
        def copy(self, target: int, source: int, nbytes: int) -> None: ...
        def synchronize(self) -> None: ...
        def reduce_array(self, array: Array, op: str) -> float: ...
        def exact_sum(self, array: Array) -> float: ...
        def export_dlpack(self, array: Array, **options: Any) -> Any: ...

    class ArrayDevice(Protocol):
        """What an array needs of its device; `tack.Device` fulfils it, and `lang` need not know that class."""

        @property
        def name(self) -> str: ...
        @property
        def number(self) -> int: ...
        @property
        def backend(self) -> ArrayMemory: ...
        def supports_dtype(self, dtype: DType) -> bool: ...
        def empty_reduction(self, op: str) -> float: ...
        def reduce_numpy(self, array: HostArray, op: str) -> float: ...

    class _ArrayWords:
        """The words that a launch reads; the addresses stay valid while the array's memory and extents live."""

        _data: int
        _nbytes: int
        _key: int
        _dims: int

    ARRAY_OFFSETS: dict[str, int]
else:
    # Plain 64-bit fields, so that the native call entry reads them with single loads.
    _ArrayWords, ARRAY_OFFSETS = native_type(object, "tack.ArrayWords", ("_data", "_nbytes", "_key", "_dims"))


class Array(_ArrayWords):
    """An n-dimensional, C-contiguous array of one dtype in the memory of one device.

    Arrays are made by `tack.zeros`, `tack.empty`, `tack.ones`, `tack.full`, `tack.arange`, `tack.asarray`,
    `tack.from_dlpack` and their relatives, not by calling this class. Every host read waits for the kernels before it.

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes, device
        Extents, element type (a Tack dtype, or one of `tack.vec` and `tack.mat`), number of dimensions, of elements and
        of bytes, and the device.

    Notes
    -----
    NumPy sees the numbers of vector and matrix elements as the last axes.
    `numpy()` is a copy on every device, so a later kernel never changes what was read. ``np.asarray(a)`` and
    ``np.from_dlpack(a)`` share the memory where the device's memory is host memory ("cpu", "reference").

    Examples
    --------
    >>> a = tack.zeros((2, 3), tack.i32)
    >>> a[1, 2] = 7
    >>> a.numpy().tolist()
    [[0, 0, 0], [0, 0, 7]]
    """

    __slots__ = (
        "__weakref__",
        "_device",
        "_dtype",
        "_element",
        "_extents",
        "_owner",
        "_parts",
        "_shape",
        "_size",
    )

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        device: ArrayDevice,
        address: int,
        owner: Any,
        *,
        readonly: bool = False,
    ) -> None:
        self._element, self._shape, self._device, self._owner = dtype, shape, device, owner
        self._dtype, self._parts = number_type(dtype), shape_of(dtype)
        self._size = math.prod(shape)
        self._data = address
        self._nbytes = self._size * dtype.itemsize
        self._key = dtype.code | len(shape) << 8 | (READ_ONLY if readonly else 0) | device.number << DEVICE_SHIFT
        self._extents = array.array("q", shape or (1,))  # 0-d: a real address all the same
        self._dims = self._extents.buffer_info()[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._element

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._size

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return self._nbytes

    @property
    def device(self) -> Any:
        """The device whose memory this is, a `tack.Device`."""
        return self._device

    def __repr__(self) -> str:
        note = ", read-only" if self._key & READ_ONLY else ""
        return f"<tack.Array {self._shape} {self._element.name} on {self._device.name}{note}>"

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d array")
        return self._shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self.ndim != 1:
            raise TypeError(f"only a 1-d array can be iterated over, this one is {self.ndim}-d; use a.numpy()")
        return iter(self.numpy().tolist())

    # --- Reading and writing from the host ---

    def numpy(self) -> HostArray:
        """The elements, copied into a new NumPy array of the same shape and dtype; waits for the kernels before it.

        The numbers of vector and matrix elements are the last axes: ``(*shape, n)``, ``(*shape, rows, columns)``.
        """
        values = np.empty(self._shape + self._parts, self._dtype.numpy)
        self._device.backend.download(self._data, values)
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """For ``np.asarray(a)``: the memory itself where it is host memory, else a copy."""
        view = None if copy else self._host_view()
        if view is None and copy is False:
            raise ValueError(f"the memory of {self._device.name} is not host memory: NumPy can only have a copy")
        values = self.numpy() if view is None else view
        return values if dtype is None else values.astype(dtype, copy=copy is True)

    def _host_view(self) -> HostArray | None:
        """The memory as a NumPy array that keeps it alive, or None where the host cannot see it."""
        backend = self._device.backend
        if not {"host_memory", "host_visible"} & backend.capabilities:
            return None
        backend.synchronize()
        return np.asarray(_HostBuffer(self))

    def __getitem__(self, index: Any) -> Any:
        cell = np.empty(self._parts or (1,), self._dtype.numpy)
        self._device.backend.download(self._data + self._offset(index) * self._element.itemsize, cell)
        return cell if self._parts else cell.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_writeable()
        self._device.backend.upload(self._data + self._offset(index) * self._element.itemsize, self._cell(value))

    def _cell(self, value: Any) -> HostArray:
        """One element as NumPy memory; a number fills every component of a vector or matrix."""
        parts = self._parts
        if parts and isinstance(value, (list, tuple, np.ndarray)):
            cells = np.array(value, dtype=object)
            if cells.shape != parts:
                raise ValueError(
                    f"an element is {self._element!r}, of shape {parts}; the value has shape {cells.shape}"
                )
            numbers = [convert_value(x, self._dtype) for x in cells.reshape(-1)]
            return np.array(numbers, self._dtype.numpy).reshape(parts)
        return np.full(parts or (1,), convert_value(value, self._dtype), self._dtype.numpy)

    def _offset(self, index: Any) -> int:
        """The flat position of an element: one index a dimension, or one flat index, as in a kernel (MEM-2)."""
        indices = index if isinstance(index, tuple) else (index,)
        shape = self._shape if len(indices) == len(self._shape) else (self._size,)
        if len(indices) != len(shape):
            raise TypeError(f"a {self.ndim}-d array takes {self.ndim} indices or one flat index, not {len(indices)}")
        offset = 0
        for axis, (given, extent) in enumerate(zip(indices, shape, strict=True)):
            try:
                position = operator.index(given)
            except TypeError:
                raise TypeError(
                    f"an index of a tack.Array is an integer, not {type(given).__name__}; "
                    "write a.numpy()[...] to read a part"
                ) from None
            if not -extent <= position < extent:
                raise IndexError(f"index {position} is outside axis {axis}, which has {extent} elements")
            offset = offset * extent + position % extent
        return offset

    def _check_writeable(self) -> None:
        if self._key & READ_ONLY:
            raise ValueError("the array is read-only, because the memory it was made from is; write to a.copy()")

    def _store(self, values: HostArray) -> None:
        """Replace all elements by those of a host array of the same shape."""
        from tack.lang.host_cast import cast_values

        self._check_writeable()
        self._device.backend.upload(self._data, np.ascontiguousarray(cast_values(values, self._dtype)))

    def fill(self, value: Any) -> None:
        """Set every element to `value`, converted as a kernel's cast would; a number fills all components.

        Raises
        ------
        ValueError
            If the array is read-only, `value` is not finite and the elements are integers, or it is a vector of another
            shape than the elements.
        """
        self._check_writeable()
        cell, view = self._cell(value), self._host_view()
        if view is None:
            self._device.backend.fill(self._data, cell, self._size)
        else:
            view[...] = cell

    def _copy_from(self, source: Array) -> None:
        """Replace all elements by those of an array of the same device, type and shape; the two may overlap."""
        self._check_writeable()
        self._device.backend.copy(self._data, source._data, self._nbytes)

    def copy(self) -> Array:
        """A new array on the same device with the same elements."""
        return self.astype(self._element)

    def astype(self, dtype: Any) -> Array:
        """A new array with the elements converted to `dtype`, by the rules of a kernel's cast.

        Integers wrap, floats truncate toward zero when they become integers.

        Raises
        ------
        TypeError
            If `dtype` is no Tack dtype, or has elements of another shape.
        ValueError
            If a NaN or an infinity would become an integer.
        """
        from tack.lang.host_cast import cast_values

        wanted = as_element_type(dtype)
        if shape_of(wanted) != self._parts:
            raise TypeError(
                f"elements of {self._element!r} cannot become {wanted!r}; reshape a.numpy() and use asarray"
            )
        result = new_array(self._shape, wanted, self._device)
        if number_type(wanted) is self._dtype:
            self._device.backend.copy(result._data, self._data, self._nbytes)
        else:
            result._store(cast_values(np.asarray(self), number_type(wanted)))
        return result

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """An array of another shape on the same memory; one extent may be -1.

        Raises
        ------
        ValueError
            If the number of elements differs.
        """
        given: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        extents = _fill_in(tuple(map(operator.index, given)), self._size)
        result = Array(self._element, extents, self._device, self._data, self._owner)
        result._key |= self._key & (READ_ONLY | MISALIGNED)
        return result

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tack.Array holds device memory and cannot be pickled; pickle a.numpy()")

    # --- DLPack ---

    def __dlpack_device__(self) -> tuple[int, int]:
        found = self._device.backend.dlpack_device
        if found is None:
            raise BufferError(f"DLPack hand-over from {self._device.name} is not supported; use a.numpy()")
        return found

    def __dlpack__(self, **options: Any) -> Any:
        """The memory as a DLPack capsule, after the kernels before it; `options` are those of the array API standard.

        Raises
        ------
        BufferError
            If the consumer's wishes cannot be met.
        """
        view = self._host_view()
        if view is None:
            return self._device.backend.export_dlpack(self, **options)
        return view.__dlpack__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as other CUDA libraries read it (CUDA array interface, version 3).

        Raises
        ------
        AttributeError
            If the array is not on a CUDA device.
        """
        if "cuda_array_interface" not in self._device.backend.capabilities:
            raise AttributeError(f"arrays on device {self._device.name} have no CUDA memory")
        return {
            "version": 3,
            "shape": self._shape + self._parts,
            "typestr": self._dtype.numpy.str,
            "data": (self._data, bool(self._key & READ_ONLY)),
            "strides": None,
            "stream": _LEGACY_DEFAULT_STREAM,  # in whose order the device's own stream runs
        }

    # --- Reductions ---

    def sum(self, *, reproducible: bool = False) -> float:
        """The sum of all elements; 0.0 if there are none.

        Integers accumulate in i64 or u64 and wrap. Floats are added at their own precision in any order.

        Parameters
        ----------
        reproducible
            Give the exact sum, rounded once to the element type: the same bits on every device, in every order.

        Examples
        --------
        >>> tack.asarray([1e8, 1.0, -1e8], tack.f32).sum(reproducible=True)
        1.0
        """
        if reproducible and self._dtype.is_float and self._size and not self._parts:
            return self._device.backend.exact_sum(self)
        return self._reduce("sum")

    def min(self) -> float:
        """The smallest element, NaN if there is a NaN; -0.0 is below 0.0. ValueError if there are no elements."""
        return self._reduce("min")

    def max(self) -> float:
        """The largest element, NaN if there is a NaN; 0.0 is above -0.0. ValueError if there are no elements."""
        return self._reduce("max")

    def mean(self) -> float:
        """``sum() / size`` in binary64; NaN if there are no elements."""
        return self.sum() / self._size if self._size else math.nan

    def _reduce(self, op: str) -> float:
        device = self._device
        if isinstance(self._element, VecType):
            raise TypeError(f"{op}() of {self._element!r} elements is not one number; write a.numpy().{op}(axis=0)")
        if self._size == 0:
            return device.empty_reduction(op)
        if device.backend.supports_device_reductions:
            return device.backend.reduce_array(self, op)
        return device.reduce_numpy(np.asarray(self), op)


def new_array(shape: tuple[int, ...], dtype: DType, device: ArrayDevice) -> Array:
    """A zero-filled array in new memory of `device`.

    Raises
    ------
    TypeError
        If the device has no such dtype: not all have f64.
    ValueError
        If it would have 2**63 bytes or more.
    """
    if not device.supports_dtype(number_type(dtype)):
        raise TypeError(f"device {device.name} has no {number_type(dtype).name}: use tack.f32, or another device")
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes >= 1 << 63:
        raise ValueError(f"an array of shape {shape} and dtype {dtype.name} is too large: {nbytes} bytes")
    address, owner = device.backend.allocate(nbytes)
    return Array(dtype, shape, device, address, owner)


def _fill_in(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The new shape for `size` elements, with its one -1 replaced."""
    known = math.prod(n for n in shape if n != -1)
    unknown = shape.count(-1)
    if unknown > 1 or any(n < -1 for n in shape):
        raise ValueError(f"shape {shape}: extents are not negative, but for one -1")
    if unknown:
        if known == 0 or size % known:
            raise ValueError(f"{size} elements do not divide into shape {shape}")
        return tuple(size // known if n == -1 else n for n in shape)
    if known != size:
        raise ValueError(f"{size} elements do not fill shape {shape}, which has {known}")
    return shape
