"""The devices "hip", "hip:1", ...: HIP C for AMD GPUs, compiled by hipRTC, launched through the HIP runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tack.lang.ir import IRKernel
from tack.runtime.backend import VariantOptions
from tack.runtime.gpu_backend import GpuBackend
from tack.runtime.hip_driver import driver, hiprtc, hiprtc_identity

if TYPE_CHECKING:
    from tack.codegen.hip_gen import HIPCodeGen

# hipRTC's default, `fast`, fuses products into later statements (founding page, rule FLT-4).
_HIPRTC_OPTIONS: Final = ("-ffp-contract=on",)
_ATOMICS: Final = ("i32", "u32", "i64", "u64", "f32", "f64")


class HipBackend(GpuBackend):
    """One AMD GPU.

    Parameters
    ----------
    number
        As HIP counts them.

    Raises
    ------
    HipError
        If there is no driver or no such device.
    """

    capabilities = frozenset({"f64", "workgroups", "alias_variants", *(f"atomic_{t}" for t in _ATOMICS)})
    attributes: ClassVar[dict[str, int]] = {"lanes": 56, "shared": 74, "processors": 63}  # hipDeviceAttribute*
    language: ClassVar[str] = "hip"
    dlpack_kind: ClassVar[int] = 10  # kDLROCM

    def __init__(self, number: int) -> None:
        super().__init__(driver(), "hip", number)
        self.architecture = driver().architecture(number)

    def cache_target(self) -> str:
        return " ".join(("hip", self.architecture, *_HIPRTC_OPTIONS, hiprtc_identity()))

    def generator(self, kernel: IRKernel, options: VariantOptions) -> HIPCodeGen:
        from tack.codegen.c_family import CFamilyOptions
        from tack.codegen.hip_gen import HIPCodeGen
        from tack.runtime.workgroup_limits import check_workgroups

        check_workgroups(kernel, self.name, self._most_lanes, self._most_shared)
        return HIPCodeGen(kernel, CFamilyOptions(disjoint=options.disjoint))

    def dialect(self) -> type[HIPCodeGen]:
        from tack.codegen.hip_gen import HIPCodeGen

        return HIPCodeGen

    def compile_text(self, source: str, name: str) -> bytes:
        return _compile_code_object(source, name, self.architecture)


def _compile_code_object(source: str, name: str, architecture: str) -> bytes:
    """Machine code of HIP C for an architecture such as "gfx90a".

    Raises
    ------
    HipError
        If hipRTC rejects the text; the message has its words and the numbered text.
    """
    return hiprtc().compile(source, name, (f"--offload-arch={architecture}", *_HIPRTC_OPTIONS))
