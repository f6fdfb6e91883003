"""What a device must be able to do: memory, compiling, launching. Small on purpose; see docs/design/pipeline.md."""

from __future__ import annotations

import abc
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tack.lang.records import record

if TYPE_CHECKING:
    from tack.lang.array import Array
    from tack.lang.ir import IRKernel

# Status words of a launch, the same on every backend; with these two nothing has run.
STATUS_OK = 0
STATUS_BOUNDS_OVERFLOW = 1
STATUS_BOUNDS_ZERO_DIVISION = 2

BLOCK_WORDS_PER_PARAM = 3  # array: address, bytes, address of extents; scalar: bits, 0, 0


@record(frozen=True)
class VariantOptions:
    """All that shapes generated code beyond the typed IR; every field is part of the variant's key.

    `disjoint`: no written array overlaps any other argument (checked at the call), so no-alias promises hold.
    `lanes`: how many consecutive iterations a CPU runs as the lanes of vectors; 1 for none, None for a choice by cost.
    """

    disjoint: bool = False
    lanes: int | None = None


@record(frozen=True)
class Artifact:
    """A compiled kernel apart from any process: `notes` are literals."""

    notes: dict[str, Any]
    payload: bytes


class Executable(Protocol):
    """A compiled kernel. `address` is the native ``i32 f(i64 *block, void *context)``, or None where only Python can
    launch it; it is asked for when a kernel has been called several times, and may be made then. `context` is what that
    function is given.

    `may_print` executables must be launched with the GIL released. Those that are `is_brief` only enqueue, so that the
    GIL is kept.
    """

    @property
    def address(self) -> int | None: ...

    @property
    def context(self) -> int: ...

    may_print: bool
    is_brief: bool

    def launch(self, block: int) -> int:
        """Run on the argument block at this address; return a status word. May raise."""
        ...


class Backend(abc.ABC):
    """One kind of device.

    Attributes
    ----------
    name
        As in ``tack.device(name)``.
    capabilities
        Names of what the device can do, branched on by name, never by backend: "f64", "host_memory" (its arrays are
        host memory, so NumPy arguments need no copy), "host_visible" (the host sees its memory), "page_import" (takes
        whole pages of the host's memory as its own), "alias_variants" (compiles a no-alias variant), "workgroups" (runs
        kernels that use them), "serial_workgroups" (takes them as plain loops over the lanes of a workgroup, which one
        thread runs), "texture_images" (its samplers filter textures, with coarser weights than the software),
        "atomic_<dtype>".
    dlpack_device
        Kind and number of the device whose memory arrays have, as DLPack counts them; None: they are not handed over.
    supports_device_reductions
        Whether `reduce_array` runs on the device; otherwise the host path `reduce_numpy` is used.
    """

    name: str
    capabilities: frozenset[str]
    dlpack_device: tuple[int, int] | None = None
    supports_device_reductions: bool = False

    @abc.abstractmethod
    def allocate(self, nbytes: int) -> tuple[int, Any]:
        """Zero-filled memory: its address, and the object whose life is the memory's life."""

    def import_pages(self, values: np.ndarray[Any, Any]) -> Any:
        """The object whose life is the life of a host array's memory as the device's own; None if it has not whole
        pages. A `Lent` one is over when a call with the host array itself returns."""
        return None

    @abc.abstractmethod
    def upload(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous host array to device memory, after all earlier launches."""

    @abc.abstractmethod
    def download(self, address: int, target: np.ndarray[Any, Any]) -> None:
        """Copy device memory into a C-contiguous host array, after all earlier launches."""

    def fill(self, address: int, cell: np.ndarray[Any, Any], count: int) -> None:
        """Set `count` elements from an address on to the one in `cell`, after all earlier launches."""
        self.upload(address, np.tile(cell.reshape(-1), count))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy inside the device's memory, after all earlier launches; the two ranges may overlap."""
        between = np.empty(nbytes, np.uint8)
        self.download(source, between)
        self.upload(target, between)

    def mark(self) -> Any:
        """The point in time when all earlier launches have finished, for `seconds_between`."""
        self.synchronize()
        return time.perf_counter()

    def seconds_between(self, first: Any, last: Any) -> float:
        """The seconds from one mark to another; waits for both."""
        return float(last - first)

    @abc.abstractmethod
    def compile(self, kernel: IRKernel, options: VariantOptions) -> Executable:
        """Compile verified, typed IR. Thread-safe."""

    def cache_target(self) -> str | None:
        """What compiled code depends on besides the kernel: processor, features, tools; None: code is not kept.

        A backend that gives one has `build` and `load`, and its `compile` is both of them.
        """
        return None

    def expect_build(self) -> None:
        """Called when a kernel is going to be typed and built, so that what needs no Python can start."""
        return

    def build(self, kernel: IRKernel, options: VariantOptions) -> Artifact:
        """Compile verified, typed IR to what a disk cache can keep. Thread-safe."""
        raise NotImplementedError

    def load(self, artifact: Artifact) -> Executable:
        """Make what `build` returned, in this process or an earlier one, executable.

        Raises
        ------
        ValueError, TypeError, KeyError, LookupError, OSError
            If it is not of this backend, or does not fit this process.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait until all launches have finished."""

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        """The text of each stage after typed IR, by stage name ("llvm", "asm", ...)."""
        return {}

    def export_dlpack(self, array: Array, **options: Any) -> Any:
        """A DLPack capsule of an array that is not in host memory; `options` are those of ``__dlpack__``.

        Raises
        ------
        BufferError
            If they cannot be met.
        """
        raise BufferError(f"DLPack hand-over from {self.name} is not supported; use a.numpy()")

    def reduce_array(self, array: Array, op: str) -> float:
        """Reduce all elements: `op` is "sum", "min" or "max"; the array is not empty."""
        from tack.runtime.reductions import reduce_numpy

        return reduce_numpy(array.numpy(), op)

    def exact_sum(self, array: Array) -> float:
        """The exact sum of floats, rounded once to their type; the array is not empty."""
        from tack.runtime.reductions import exact_sum

        return exact_sum(np.asarray(array))
