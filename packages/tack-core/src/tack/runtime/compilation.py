"""From a kernel's source to a typed variant: what a call does when neither memory nor disk has its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tack.codegen.work_estimate import work
from tack.lang.array import MISALIGNED, READ_ONLY, Array
from tack.lang.ast_transform import Lowered, lower_kernel
from tack.lang.debug import DEBUG
from tack.lang.depth import nesting_explained
from tack.lang.diagnostics import fail
from tack.lang.ir import (
    IRArrayRef,
    IRAtomic,
    IRCall,
    IRFor,
    IRFunction,
    IRKernel,
    IRParallelFor,
    IRPrint,
    IRVar,
    IRWhile,
    IRWorkgroup,
    may_use_workgroups,
    walk,
)
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.source_validation import validate
from tack.lang.type_inference import infer_param_types
from tack.lang.types import number_type
from tack.runtime.backend import Backend

if TYPE_CHECKING:
    from tack.lang.kernel import Kernel
    from tack.runtime.device import Device

_RELEASE_BYTES = 1 << 16
_RELEASE_UNITS = 320_000  # bytes x work units an iteration: some 20 microseconds at four bytes an iteration


def lower(kernel: Kernel, objects: Mapping[int, Any]) -> Lowered:
    """Validate and lower a kernel for what captured names hold now, and for the instances among its arguments."""
    with nesting_explained(kernel.source):
        validate(kernel.source)
        lowered = lower_kernel(kernel.source, kernel.group, objects)
    if DEBUG:
        from tack.lang.ir_verify import verify_untyped

        verify_untyped(lowered.ir)
    assert isinstance(lowered.ir, IRKernel)
    return lowered


def type_kernel(ir: IRKernel, arguments: list[Any]) -> IRKernel:
    """The typed IR for a call with these arguments, workgroups split."""
    typed = annotate_types(ir, infer_param_types(ir, arguments))
    if DEBUG:
        from tack.lang.ir_verify import verify_typed

        verify_typed(typed)
    if not may_use_workgroups(typed):
        return typed
    from tack.lang.workgroups import split_workgroups  # most kernels are spared the loading of the pass

    split = split_workgroups(typed)
    if DEBUG:
        from tack.lang.workgroup_verify import verify_workgroups

        verify_workgroups(split)
    return split


def for_backend(typed: IRKernel, backend: Backend) -> IRKernel:
    """The typed IR as this backend takes it.

    Raises
    ------
    NotImplementedError
        If the kernel uses workgroups and the backend cannot run them; the message has the loop's place.
    """
    loop = next((s for s in typed.body if isinstance(s, IRWorkgroup)), None)
    if loop is not None and "workgroups" not in backend.capabilities:
        fail(NotImplementedError, f"device {backend.name} runs no workgroups", loop.loc, hint="use device cpu")
    if loop is None or "serial_workgroups" not in backend.capabilities:
        return typed
    from tack.lang.serial_workgroups import serialise_workgroups

    plain = serialise_workgroups(typed)
    if DEBUG:
        from tack.lang.ir_verify import verify_typed

        verify_typed(plain)
    return plain


def check_arrays(ir: IRKernel, values: list[Any], keys: list[int], device: Device) -> None:
    """Refuse arrays that the kernel cannot use; their keys differ from usable ones, so a row needs no check."""
    for param, value, key in zip(ir.params, values, keys, strict=True):
        if not isinstance(value, Array):
            continue
        dtype = number_type(value.dtype)
        if not device.supports_dtype(dtype):
            fail(TypeError, f"`{param.name}`: device {device.name} has no {dtype.name}", param.loc)
        if key & READ_ONLY and param.written:
            text = f"`{param.name}` is a read-only array, but the kernel stores to it"
            fail(ValueError, text, param.loc, hint="pass a writable array, for instance a copy")
        if key & MISALIGNED and param.name in atomic_params(ir):
            text = f"`{param.name}` is not aligned to its elements, and the kernel has an atomic operation on it"
            fail(ValueError, text, param.loc, hint="pass a copy: a NumPy copy is aligned")


def atomic_params(ir: IRFunction) -> set[str]:
    """The array parameters with atomic operations on them, in this function or in one that it calls."""
    names = {p.name for p in ir.params}
    found = set()
    for node in walk(ir.body):
        if isinstance(node, IRAtomic):
            found.add(node.array)
        elif isinstance(node, IRCall):
            callee = node.callee.lowered().ir
            inner = atomic_params(callee)
            for param, arg in zip(callee.params, node.args, strict=True):
                if isinstance(arg, IRArrayRef) and param.name in inner:
                    found.add(arg.name)
    return found & names


def release_bytes(typed: IRKernel) -> int:
    """From how many bytes of arguments on a call is worth releasing the GIL; 0: always.

    Releasing costs about 60 ns, so calls of a few microseconds should keep it. Where the work does not follow from the
    size of the arguments it is always released.
    """
    loops = [s for s in typed.body if isinstance(s, IRParallelFor)]
    bounds = [e for loop in loops for r in loop.ranges for e in (r.start, r.stop, r.step)]
    unknown = any(isinstance(n, (IRFor, IRWhile, IRPrint)) for loop in loops for n in walk(loop.body))
    if unknown or any(isinstance(n, IRVar) for bound in bounds for n in walk(bound)):
        return 0
    units = sum(work(loop.body, typed.functions) for loop in loops)
    return min(_RELEASE_BYTES, _RELEASE_UNITS // max(1, units))
