"""The devices "cuda", "cuda:1", ...: CUDA C for NVIDIA GPUs, compiled by NVRTC, launched through the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tack.lang.ir import IRKernel
from tack.lang.loading import loading
from tack.runtime.backend import VariantOptions
from tack.runtime.cuda_driver import compile_cubin, driver, load_nvrtc_ahead, nvrtc_identity
from tack.runtime.cuda_textures import TextureImages, has_textures
from tack.runtime.gpu_backend import GpuBackend

if TYPE_CHECKING:
    from tack.codegen.cuda_gen import CUDACodeGen

# Value-preserving math (founding page, "Safe math by default"): no fast-math option.
_COMPILE_OPTIONS: Final = ("--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
_ATOMICS: Final = ("i32", "u32", "i64", "u64", "f32", "f64")


class CudaBackend(GpuBackend):
    """One NVIDIA GPU.

    Parameters
    ----------
    number
        As the driver counts them.

    Raises
    ------
    CudaError
        If there is no driver or no such device.
    """

    capabilities = frozenset(
        {"f64", "workgroups", "alias_variants", "cuda_array_interface", *(f"atomic_{t}" for t in _ATOMICS)}
    )
    reported: ClassVar[frozenset[str]] = frozenset({"texture_images"})  # where the driver has them
    attributes: ClassVar[dict[str, int]] = {  # CU_DEVICE_ATTRIBUTE_*
        **{"lanes": 1, "shared": 8, "processors": 16, "major": 75, "minor": 76}
    }
    dlpack_kind: ClassVar[int] = 2  # kDLCUDA
    language: ClassVar[str] = "cuda"

    def __init__(self, number: int) -> None:
        super().__init__(driver(), "cuda", number)
        if has_textures(self._driver):
            self._stream.images = TextureImages(self._stream)
            self.capabilities = CudaBackend.capabilities | self.reported
        self.architecture = f"sm_{self.attribute('major')}{self.attribute('minor')}"

    def cache_target(self) -> str:
        images = "images" if "texture_images" in self.capabilities else ""
        return " ".join(("cuda", self.architecture, images, *_COMPILE_OPTIONS, nvrtc_identity()))

    def expect_build(self) -> None:
        load_nvrtc_ahead()

    def generator(self, kernel: IRKernel, options: VariantOptions) -> CUDACodeGen:
        with loading():
            from tack.codegen.c_family import CFamilyOptions
            from tack.codegen.cuda_gen import CUDACodeGen
            from tack.runtime.workgroup_limits import check_workgroups

        check_workgroups(kernel, self.name, self._most_lanes, self._most_shared)
        images = "texture_images" in self.capabilities
        return CUDACodeGen(kernel, CFamilyOptions(disjoint=options.disjoint, texture_images=images))

    def dialect(self) -> type[CUDACodeGen]:
        from tack.codegen.cuda_gen import CUDACodeGen

        return CUDACodeGen

    def compile_text(self, source: str, name: str) -> bytes:
        return compile_cubin(source, name, self.architecture, _COMPILE_OPTIONS)
