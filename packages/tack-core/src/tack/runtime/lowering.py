"""A kernel for one set of captured values: from the disk cache without the compiler, or lowered (rules CACHE-*)."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from tack.lang.array import Array
from tack.lang.data_oriented import Structure
from tack.lang.free_names import contents
from tack.lang.loading import loading
from tack.lang.names import Capture, CellName, ClassNames, GlobalNames, value_key
from tack.lang.records import field, record, replace
from tack.lang.types import BY_NAME, DType
from tack.runtime.backend import VariantOptions
from tack.runtime.binding import Binder
from tack.runtime.code_store import digest_of, fetch, keep
from tack.runtime.device import Device
from tack.runtime.variant import Variant, describe

if TYPE_CHECKING:
    from tack.lang.ast_transform import Lowered
    from tack.lang.ir import IRKernel
    from tack.lang.kernel import Kernel
    from tack.runtime.instances import FieldEntry


@record(frozen=True)
class Outline:
    """What a call must know of a kernel before it has a variant.

    `written` are the parameters that it may store to, `pins` the scalar ones with a type of their own, `early` those
    that it loads from outside the parallel loops.
    """

    written: tuple[int, ...]
    pins: tuple[tuple[int, DType], ...]
    early: tuple[int, ...] = ()

    @staticmethod
    def of(ir: IRKernel) -> Outline:
        return Outline(
            tuple(i for i, p in enumerate(ir.params) if p.written),
            tuple((i, p.annotation) for i, p in enumerate(ir.params) if p.annotation is not None),
            tuple(i for i, p in enumerate(ir.params) if p.early),
        )

    def describe(self) -> dict[str, Any]:
        return {"written": self.written, "pins": [(i, pin.name) for i, pin in self.pins], "early": self.early}

    @staticmethod
    def described(notes: dict[str, Any], _: bytes) -> Outline:
        """What `describe` was made from; raises ValueError, TypeError or KeyError if it is not."""
        return Outline(
            tuple(int(i) for i in notes["written"]),
            tuple((int(i), BY_NAME[name]) for i, name in notes["pins"]),
            tuple(int(i) for i in notes["early"]),
        )


@record(eq=False, weakref_slot=True)
class Lowering:
    """A kernel lowered for one set of captured values, with its variants.

    `structure` says how instances among the arguments were taken apart; `binder` knows the parameters that this left.
    `digest` names the kernel with these values in the disk cache, if it can be there.
    """

    kernel: weakref.ref[Kernel]
    captures: tuple[Capture, ...]
    outline: Outline
    binder: Binder
    digest: str | None = None
    structure: Structure | None = None
    entry: FieldEntry | None = None
    rows: dict[tuple[Any, ...], Variant] = field(default_factory=dict)
    known_ir: IRKernel | None = None

    @property
    def written(self) -> tuple[int, ...]:
        return self.outline.written

    @property
    def pins(self) -> tuple[tuple[int, DType], ...]:
        return self.outline.pins

    @property
    def early(self) -> tuple[int, ...]:
        return self.outline.early

    @property
    def ir(self) -> IRKernel:
        """The untyped IR. What came from the disk is lowered when somebody asks, for a new variant or an error."""
        if self.known_ir is not None:
            return self.known_ir
        kernel = self.kernel()
        assert kernel is not None, "a kernel that is being called lives"
        lowered = _lower(kernel, _instances.get())
        ir = cast("IRKernel", lowered.ir)
        if lowered.structure != self.structure:
            raise RuntimeError(f"kernel `{kernel.source.name}`: a class changed during the call; call it again")
        if _agree(self.captures, lowered.captures):
            self.known_ir = ir
        return ir  # else a name was rebound meanwhile: good for this call, as if it had come a little later

    def is_current(self) -> bool:
        """Whether every captured name still holds the very object that was compiled in."""
        return all(c.current() is c.value for c in self.captures)

    def matches(self) -> bool:
        """Whether every captured name holds a value with the same key; adopts the new objects if so."""
        values = [c.current() for c in self.captures]  # read once: another thread may rebind the name meanwhile
        if any(value_key(v) != c.key for v, c in zip(values, self.captures, strict=True)):
            return False
        self.captures = tuple(replace(c, value=v) for v, c in zip(values, self.captures, strict=True))
        return True

    @loading()
    def variant(self, device: Device, values: list[Any], keys: Sequence[int], options: VariantOptions) -> Variant:
        """The variant for these arguments, from the disk or compiled; raises the user's errors before anything runs."""
        backend = device.backend
        target = None if self.digest is None else backend.cache_target()
        digest = (
            None
            if target is None
            else digest_of("variant", self.digest, target, device.name, tuple(keys), repr(options))
        )
        found = fetch(digest, lambda notes, payload: Variant.described(backend, notes, payload))
        if found is not None:
            return found
        backend.expect_build()
        from tack.runtime.compilation import check_arrays, for_backend, release_bytes, type_kernel

        ir = self.ir
        check_arrays(ir, values, list(keys), device)
        typed = for_backend(type_kernel(ir, values), backend)
        result, size = typed.results[0] if typed.results else None, release_bytes(typed)
        if digest is None:
            return Variant(backend.compile(typed, options), result, size)
        artifact = backend.build(typed, options)
        notes = describe(artifact, result, size)
        variant = Variant.described(backend, notes, artifact.payload)
        if self.known_ir is not None and self.is_current():
            keep(digest, notes, artifact.payload)
        return variant


@loading()
def find_lowering(kernel: Kernel, binder: Binder, args: Sequence[Any] = ()) -> Lowering:
    """A kernel for the values that captured names hold now, from the disk cache if it is there.

    If it is not, the device of the first array among `args` is told: it will have something to build.
    """
    try:
        found = contents(kernel.source)
        digest = None if found is None else digest_of("kernel", found.content, kernel.group)
    except RecursionError:  # nested too deeply to be described; whether it is to be compiled, lowering says
        found = digest = None
    outline = fetch(digest, Outline.described)
    if found is not None and outline is not None:
        return Lowering(weakref.ref(kernel), found.captures, outline, binder, digest)
    for array in (arg for arg in args if isinstance(arg, Array)):
        array.device.backend.expect_build()
        break
    fresh = lower_kernel_for(kernel, binder, {})
    if found is not None and _agree(found.captures, fresh.captures):
        fresh.digest = digest
        keep(digest, fresh.outline.describe())
    return fresh


@loading()
def find_lowering_for(kernel: Kernel, binder: Binder, objects: Mapping[int, Any]) -> Lowering:
    """A kernel for these instances, arguments by position, from the disk cache if it is there."""
    try:
        found = contents(kernel.source, objects)
        digest = None if found is None else digest_of("kernel of instances", found.content, kernel.group)
    except RecursionError:
        found = digest = None

    def described(notes: dict[str, Any], payload: bytes) -> Lowering:
        structure = Structure.described(notes["structure"], objects)
        outline, left = Outline.described(notes, payload), binder.of_fields(tuple(map(str, notes["params"])))
        return Lowering(weakref.ref(kernel), found.captures if found else (), outline, left, digest, structure)

    known = fetch(digest, described)
    if known is not None:
        return known
    fresh = lower_kernel_for(kernel, binder, objects)
    if found is None or fresh.structure is None or not _agree(found.captures, fresh.captures):
        return fresh
    if found.covers(fresh.structure):
        fresh.digest = digest
        notes = {"params": tuple(p.name for p in fresh.ir.params), "structure": fresh.structure.describe()}
        keep(digest, fresh.outline.describe() | notes)
    return fresh


@contextlib.contextmanager
def instances_known(objects: Mapping[int, Any]) -> Iterator[None]:
    """Let a lowering that came from the disk be lowered for these instances meanwhile."""
    token = _instances.set(objects)
    try:
        yield
    finally:
        _instances.reset(token)


_instances: ContextVar[Mapping[int, Any]] = ContextVar("instances", default=MappingProxyType({}))


def lower_kernel_for(kernel: Kernel, binder: Binder, objects: Mapping[int, Any]) -> Lowering:
    """A kernel lowered now; `objects` are the arguments, by position, that are instances of data-oriented classes."""
    lowered = _lower(kernel, objects)
    ir, structure = cast("IRKernel", lowered.ir), lowered.structure
    left = binder if structure is None else binder.of_fields(p.name for p in ir.params)
    outline = Outline.of(ir)
    return Lowering(weakref.ref(kernel), lowered.captures, outline, left, structure=structure, known_ir=ir)


def _lower(kernel: Kernel, objects: Mapping[int, Any] | None = None) -> Lowered:
    with loading():
        from tack.runtime.compilation import lower

    return lower(kernel, objects or {})


def _agree(found: Sequence[Capture], lowered: Sequence[Capture]) -> bool:
    """Whether the content of a kernel says all that its lowering read, and the same.

    The names that Tack's own device functions capture are Tack's version.
    """
    known = {_place(c): c.key for c in found}
    return all(known.get(_place(c), _place) == c.key for c in lowered if not _is_own(c))


def _place(capture: Capture) -> tuple[object, str] | None:
    space = capture.namespace
    if isinstance(space, GlobalNames):
        return id(space.globals), capture.name
    if isinstance(space, CellName):
        return id(space.cell), capture.name
    if isinstance(space, ClassNames):
        return space, capture.name
    return id(space.owner), capture.name


def _is_own(capture: Capture) -> bool:
    space = capture.namespace
    return isinstance(space, GlobalNames) and str(space.globals.get("__name__", "")).startswith("tack.")
