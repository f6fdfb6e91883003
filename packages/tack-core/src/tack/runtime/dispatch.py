"""A call: bind, classify, guard, find the row, launch. Every failure is explained here, before anything runs.

The Python path below is the reference for any faster entry: it decides what a signature is and builds the rows.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tack.codegen.call_table import (
    F32_LIMIT,
    KEY_FLOAT,
    KEY_FLOAT_WIDE,
    KEY_INT32,
    KEY_INT64,
    KEY_TYPED,
    KEY_UINT64,
    MAX_PARAMS,
    OVERLAP_ANY,
    OVERLAP_NO,
    OVERLAP_YES,
    RESULT_FLOAT,
    RESULT_NONE,
    RESULT_SIGNED,
    RESULT_UNSIGNED,
)
from tack.lang.array import DEVICE_MASK, MISALIGNED, Array
from tack.lang.data_oriented import instances_in
from tack.lang.depth import nesting_explained
from tack.lang.diagnostics import UnsupportedSyntaxError
from tack.lang.func import Func
from tack.lang.kernel import _Kernel
from tack.lang.types import DType, Scalar, f64, i64, is_integer_number
from tack.runtime.backend import STATUS_OK, VariantOptions
from tack.runtime.binding import Binder
from tack.runtime.device import Device, current_device
from tack.runtime.interop import Lent, wrap_argument
from tack.runtime.lowering import Lowering, find_lowering, find_lowering_for, instances_known
from tack.runtime.variant import Variant

if TYPE_CHECKING:
    from tack.lang.kernel import Kernel
    from tack.runtime.instances import InstanceLowerings
    from tack.runtime.native_call import Tables

NATIVE_AFTER = 8  # slow calls of a kernel before the native entry takes over: building it costs a few kernels' time
NATIVE_AFTER_CHEAP = 2  # where the entry is at hand
NEVER = (1 << 63) - 1  # bytes from which on the GIL is released
MAX_LOWERINGS = 64  # per kernel: older sets of captured values are dropped and compiled again if they return

_pack_double = struct.Struct("<d").pack
_unpack_word = struct.Struct("<q").unpack


def float_bits(value: float) -> int:
    """The bits of a binary64 as an i64."""
    return int(_unpack_word(_pack_double(value))[0])


def to_word(value: int) -> int:
    """The i64 with the low 64 bits of `value`."""
    return value - (1 << 64) if value >= 1 << 63 else value


class KernelState:
    """What the runtime keeps for one kernel: binding, lowerings, rows."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.binder = Binder(kernel.source)
        self.count = len(self.binder.names)
        self._slow_calls = 0
        self._tables: Tables | None = None
        self.lowerings: list[Lowering] = []
        self._for_instances: InstanceLowerings | None = None

    def _instance_lowerings(self) -> InstanceLowerings:
        """The lowerings for instances, made for the first of them: most kernels get none."""
        with self.kernel._lock:
            if self._for_instances is None:
                from tack.runtime.instances import InstanceLowerings

                self._for_instances = InstanceLowerings(self.kernel, self.count, self._lower_for)
            return self._for_instances

    def _lower_for(self, objects: Mapping[int, Any]) -> Lowering:
        from tack.runtime.instances import FieldEntry

        lowering = find_lowering_for(self.kernel, self.binder, objects)
        lowering.entry = FieldEntry(self, lowering)
        return lowering

    def lowering(self, args: tuple[Any, ...]) -> Lowering:
        """The lowering for the values that captured names hold now (rules CAP-*)."""
        known_ones = self.lowerings
        if known_ones and known_ones[0].is_current():
            return known_ones[0]
        with self.kernel._lock:
            for known in self.lowerings:
                if known.matches():
                    self.lowerings = [known, *(x for x in self.lowerings if x is not known)]
                    return known
            fresh = find_lowering(self.kernel, self.binder, args)
            # Native calls without the GIL may be running code of any lowering: none is dropped meanwhile.
            keep = MAX_LOWERINGS - 1
            if keep < len(self.lowerings):
                from tack.runtime.pool_slot import is_starting

                if self.kernel._running or is_starting():
                    keep = len(self.lowerings)
                elif self._tables is not None:
                    self._tables.withdraw()  # a row may point at the code that goes
            self.lowerings = [fresh, *self.lowerings[:keep]]
            return fresh

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Lowering, BoundCall]:
        """The lowering that is current, and the arguments in parameter order, classified."""
        if kwargs or len(args) != self.count or len(args) > self.binder.positional:
            args = self.binder.bind(args, kwargs)
        lowering, left = self.lowering_for(args)
        with instances_known(instances_in(args)):
            assert lowering.ir is not None, "lowered while the instances are at hand"
        return lowering, BoundCall(lowering.binder, self._apply_pins(lowering, left) if lowering.pins else left)

    def lowering_for(self, args: tuple[Any, ...]) -> tuple[Lowering, tuple[Any, ...]]:
        """The lowering for these arguments, and the arguments with instances taken apart."""
        objects = instances_in(args)
        if objects:
            return (self._for_instances or self._instance_lowerings()).find(args, objects)
        try:
            return self.lowering(args), args
        except UnsupportedSyntaxError:
            self._explain_undecorated(args)
            raise

    def _explain_undecorated(self, args: tuple[Any, ...]) -> None:
        """Refuse an instance of a class that only lacks its decorator, for its attributes mean nothing in a kernel."""
        for i, arg in enumerate(args):
            if any(isinstance(member, (_Kernel, Func)) for cls in type(arg).__mro__ for member in vars(cls).values()):
                accepted = f"an instance of {type(arg).__name__} if that class is decorated with @tack.data_oriented"
                raise self.binder.argument_error(TypeError, i, f"{arg!r:.60}", accepted)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch the kernel; returns its trailing result, or None. This is the slow path of the native entry."""
        if kwargs or len(args) != self.count or len(args) > self.binder.positional:
            args = self.binder.bind(args, kwargs)
        lowering, left = self.lowering_for(args)
        if lowering.entry is None:
            return self.launch(lowering, left, left is args)
        if lowering.known_ir is not None:
            return lowering.entry.kernel(*left)
        with instances_known(instances_in(args)):
            return lowering.entry.kernel(*left)

    def launch(self, lowering: Lowering, args: tuple[Any, ...], publish: bool) -> Any:
        """Launch a lowering with the arguments that it takes; `publish` if the native entry could have these."""
        call = BoundCall(lowering.binder, self._apply_pins(lowering, args) if lowering.pins else args)
        for i in lowering.early:
            call.check_early(i, lowering)
        variant = self._variant(lowering, call)
        words = call.words
        words.append(0)
        block = (ctypes.c_int64 * len(words))(*words)
        status = variant.executable.launch(ctypes.addressof(block))
        if status != STATUS_OK:
            from tack.runtime.bounds_errors import explain_status

            explain_status(status, lowering.ir, call.values)
        for lent in call.lent:
            lent.give_back()
        self._slow_calls += 1
        if publish and _native_is_due(self._slow_calls):
            self._publish(lowering, call, variant, args)
        return None if variant.result is None else variant.decode(block[len(words) - 1])

    def _publish(self, lowering: Lowering, call: BoundCall, variant: Variant, args: tuple[Any, ...]) -> None:
        """Let the native entry take calls like this one, where it can tell them."""
        from tack.runtime.native_call import Row, Tables  # a process that calls once is spared it

        keys = native_keys(lowering, call, args)
        if variant.executable.may_print or keys is None or len(args) > MAX_PARAMS:
            return
        address = variant.executable.address
        if address is None:
            return
        mask = sum(1 << i for i in lowering.written if isinstance(call.values[i], Array))
        aliasing = mask and "alias_variants" in call.device.backend.capabilities
        overlap = OVERLAP_ANY if not aliasing else OVERLAP_NO if call.is_disjoint(lowering.written) else OVERLAP_YES
        if lowering.early and overlap != OVERLAP_NO:
            return  # the native entry would not check them
        row = Row(
            function=address,
            release_bytes=NEVER if variant.executable.is_brief else variant.release_bytes,
            written_mask=mask,
            overlap=overlap,
            result=result_code(variant.result),
            device=call.device.number,
            context=variant.executable.context,
            keys=keys,
        )
        with self.kernel._lock:
            entry = lowering.entry
            owners = self.lowerings if entry is None else (lowering,)
            if not any(variant is kept for known in owners for kept in known.rows.values()):
                return  # dropped by another thread, or never kept: its code lives no longer than this call
            if entry is not None:
                entry.tables = entry.tables or Tables(entry.kernel)
                entry.tables.publish((), row)
                return
            if self._tables is None:
                self._tables = Tables(self.kernel, self.binder)
            self._tables.publish(lowering.captures, row)

    def _apply_pins(self, lowering: Lowering, args: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(args)
        for i, pin in lowering.pins:
            values[i] = lowering.binder.pinned(i, pin, values[i])
        return tuple(values)

    def _variant(self, lowering: Lowering, call: BoundCall) -> Variant:
        backend = call.device.backend
        disjoint = "alias_variants" in backend.capabilities and call.is_disjoint(lowering.written)
        key = (call.device.name, disjoint, *call.keys)
        variant = lowering.rows.get(key)
        if variant is None:
            with self.kernel._lock:
                variant = lowering.rows.get(key)
                if variant is None:
                    options = VariantOptions(disjoint=disjoint)
                    with nesting_explained(self.kernel.source):
                        variant = lowering.variant(call.device, call.values, call.keys, options)
                    if lowering.is_current():  # else another thread rebound a name that a callee captures meanwhile
                        lowering.rows[key] = variant
        return variant


def _native_is_due(calls: int) -> bool:
    """Whether the native entry takes over after so many slow calls of a kernel."""
    if calls >= NATIVE_AFTER or calls < NATIVE_AFTER_CHEAP:
        return calls >= NATIVE_AFTER
    from tack.runtime import native_call

    return native_call.is_cheap()


def native_keys(lowering: Lowering, call: BoundCall, args: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The keys that the native entry finds for these arguments; None if it cannot take such a call."""
    from tack.runtime.native_call import NUMPY_SCALARS

    pins = dict(lowering.pins)
    keys = list(call.keys)
    for i, arg in enumerate(args):
        kind = type(arg)
        if kind is np.ndarray:
            if keys[i] & MISALIGNED:
                return None
            keys[i] &= ~DEVICE_MASK
        elif i in pins:
            whole = kind is int or (kind in NUMPY_SCALARS and issubclass(kind, np.integer))
            real = kind is float or (kind in NUMPY_SCALARS and issubclass(kind, np.floating))
            if not (pins[i] is i64 and whole) and not (pins[i] is f64 and real):
                return None  # whether the value fits, or must be converted, is for the slow path to say
            keys[i] = _float_key(float(arg)) if real else KEY_INT32 if -(1 << 31) <= arg < 1 << 31 else KEY_INT64
        elif kind not in (Array, float, int, bool, Scalar, *NUMPY_SCALARS) or keys[i] == KEY_UINT64:
            return None
    return tuple(keys)


def result_code(dtype: DType | None) -> int:
    """How the native entry turns the result word into a Python object."""
    if dtype is None:
        return RESULT_NONE
    return RESULT_FLOAT if dtype.is_float else RESULT_SIGNED if dtype.is_signed else RESULT_UNSIGNED


def _float_key(value: float) -> int:
    return KEY_FLOAT_WIDE if F32_LIMIT <= abs(value) < math.inf else KEY_FLOAT


class BoundCall:
    """The arguments of one call as values, keys and words of the argument block."""

    __slots__ = ("device", "keys", "lent", "values", "words")

    def __init__(self, binder: Binder, args: Sequence[Any]) -> None:
        self.values: list[Any] = list(args)
        self.keys: list[int] = []
        self.words: list[int] = []
        self.lent: list[Lent] = []
        self.device = self._find_device(binder, args)
        keys, words = self.keys, self.words
        for i, arg in enumerate(args):
            kind = type(arg)
            if kind is Array:
                keys.append(arg._key)
                words += (arg._data, arg._nbytes, arg._dims)
            elif kind is float:
                keys.append(_float_key(arg))
                words += (float_bits(arg), 0, 0)
            elif kind is int or kind is bool:
                self._add_int(binder, i, arg)
            else:
                self._add_other(binder, i, arg)

    def _find_device(self, binder: Binder, args: Sequence[Any]) -> Device:
        device: Device | None = None
        for i, arg in enumerate(args):
            if isinstance(arg, Array):
                if device is None:
                    device = arg.device
                elif arg.device != device:
                    what = "a texture" if binder.is_texture(i) else "an array"
                    raise binder.argument_error(
                        ValueError, i, f"{what} on device {arg.device.name}", f"one on {device.name}, as the others"
                    )
        return device or current_device()

    def _add_int(self, binder: Binder, i: int, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self.keys.append(KEY_INT32)
        elif -(1 << 63) <= value < 1 << 63:
            self.keys.append(KEY_INT64)
        elif 0 <= value < 1 << 64:
            self.keys.append(KEY_UINT64)
        else:
            raise binder.argument_error(TypeError, i, f"{value}", "an integer of at most 64 bits")
        self.values[i] = value = int(value)
        self.words += (to_word(value), 0, 0)

    def _add_scalar(self, value: Scalar) -> None:
        self.keys.append(KEY_TYPED | value.dtype.code)
        bits = float_bits(value.value) if value.dtype.is_float else to_word(int(value.value))
        self.words += (bits, 0, 0)

    def _add_other(self, binder: Binder, i: int, arg: Any) -> None:
        if isinstance(arg, Scalar):
            self._add_scalar(arg)
        elif is_integer_number(arg):
            self._add_int(binder, i, int(arg))
        elif isinstance(arg, (np.floating, float)):
            value = float(arg)
            self.values[i] = value
            self.keys.append(_float_key(value))
            self.words += (float_bits(value), 0, 0)
        else:
            self._add_array(binder, i, arg)

    def _add_array(self, binder: Binder, i: int, arg: Any) -> None:
        array = arg if isinstance(arg, Array) else binder.wrap(i, arg, self.device, wrap_argument)
        if type(array._owner) is Lent:
            self.lent.append(array._owner)
        self.values[i] = array  # held until the call is over: a temporary's memory must outlive the launch
        self.keys.append(array._key)
        self.words += (array._data, array._nbytes, array._dims)

    def is_disjoint(self, written: tuple[int, ...]) -> bool:
        """Whether no written array shares a byte with any other array argument (rule MEM-*)."""
        return not any(self._overlap(w, other) for w in written for other in range(len(self.values)) if other != w)

    def _overlap(self, i: int, j: int) -> bool:
        """Whether two arguments are arrays that share a byte."""
        words, values = self.words, self.values
        first, size, other, other_size = *words[3 * i : 3 * i + 2], *words[3 * j : 3 * j + 2]
        if not (size and other_size and first < other + other_size and other < first + size):
            return False
        return isinstance(values[i], Array) and isinstance(values[j], Array)

    def check_early(self, i: int, lowering: Lowering) -> None:
        """Refuse an array that is loaded outside the loops and shares memory with one that they store to (MEM-7).

        Such a load may be done in each thread, before or after the store.
        """
        for w in lowering.written:
            if self._overlap(i, w):
                name = lowering.binder.names[w]
                accepted = f"one that does not, for it is loaded outside the parallel loops, which store to `{name}`: "
                accepted += "load it inside the loop, or pass the value as an argument"
                raise lowering.binder.argument_error(ValueError, i, f"an array that overlaps `{name}`", accepted)


def prepare(kernel: Kernel) -> KernelState:
    """The runtime state of a kernel, made once; called through `Kernel.__call__`."""
    with kernel._lock:
        if kernel._state is None:
            kernel._state = KernelState(kernel)
        state: KernelState = kernel._state
        return state
