"""The Level Zero loader through ctypes: only the entry points that Tack uses, each with its result checked.

Numbers and structures are those of the Level Zero specification, version 1.0, which every driver has.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Final

LOADERS: Final = ("libze_loader.so.1", "libze_loader.so", "ze_loader.dll")
MAX_DEVICES: Final = 15  # what an array's key has room for
FOREVER: Final = 2**64 - 1  # a timeout

_GPU_ONLY: Final = 1  # ZE_INIT_FLAG_GPU_ONLY
_GPU: Final = 1  # ZE_DEVICE_TYPE_GPU
_INTEGRATED: Final = 1  # ZE_DEVICE_PROPERTY_FLAG_INTEGRATED
_FP64, _INT64_ATOMICS = 2, 4  # ZE_DEVICE_MODULE_FLAG_*
_COMPUTE: Final = 1  # ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE

OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY = 0x70000002, 0x70000003
_MEMORY: Final = (OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY)
_RESULTS: Final = {
    0x70000001: "DEVICE_LOST",
    OUT_OF_HOST_MEMORY: "OUT_OF_HOST_MEMORY",
    OUT_OF_DEVICE_MEMORY: "OUT_OF_DEVICE_MEMORY",
    0x70000004: "MODULE_BUILD_FAILURE",
    0x70000005: "MODULE_LINK_FAILURE",
    0x70010000: "INSUFFICIENT_PERMISSIONS",
    0x70010001: "NOT_AVAILABLE",
    0x70020000: "DEPENDENCY_UNAVAILABLE",
    0x78000001: "UNINITIALIZED",
    0x78000002: "UNSUPPORTED_VERSION",
    0x78000003: "UNSUPPORTED_FEATURE",
    0x78000004: "INVALID_ARGUMENT",
    0x78000005: "INVALID_NULL_HANDLE",
    0x78000006: "HANDLE_OBJECT_IN_USE",
    0x78000007: "INVALID_NULL_POINTER",
    0x78000008: "INVALID_SIZE",
    0x78000009: "UNSUPPORTED_SIZE",
    0x7800000B: "INVALID_SYNCHRONIZATION_OBJECT",
    0x7800000F: "INVALID_NATIVE_BINARY",
    0x78000011: "INVALID_KERNEL_NAME",
    0x78000013: "INVALID_GROUP_SIZE_DIMENSION",
    0x78000014: "INVALID_GLOBAL_WIDTH_DIMENSION",
    0x78000015: "INVALID_KERNEL_ARGUMENT_INDEX",
    0x78000016: "INVALID_KERNEL_ARGUMENT_SIZE",
    0x7FFFFFFE: "UNKNOWN",
}


def _structure(name: str, stype: int, *fields: tuple[str, Any]) -> Any:
    """A structure of the specification, whose instances know their type number."""
    layout = [("stype", c_uint32), ("pNext", c_void_p), *fields]

    def init(self: Any, **values: Any) -> None:
        ctypes.Structure.__init__(self, stype=stype, **values)

    return type(name, (ctypes.Structure,), {"_fields_": layout, "__init__": init})


DriverProperties = _structure("DriverProperties", 0x1, ("uuid", c_uint8 * 16), ("driverVersion", c_uint32))
DeviceProperties = _structure(
    "DeviceProperties",
    0x3,
    *((name, c_uint32) for name in ("type", "vendorId", "deviceId", "flags", "subdeviceId", "coreClockRate")),
    ("maxMemAllocSize", c_uint64),
    *((name, c_uint32) for name in ("maxHardwareContexts", "maxCommandQueuePriority", "numThreadsPerEU")),
    *((name, c_uint32) for name in ("physicalEUSimdWidth", "numEUsPerSubslice", "numSubslicesPerSlice", "numSlices")),
    ("timerResolution", c_uint64),
    *((name, c_uint32) for name in ("timestampValidBits", "kernelTimestampValidBits")),
    ("uuid", c_uint8 * 16),
    ("name", c_char * 256),
)
ComputeProperties = _structure(
    "ComputeProperties",
    0x4,
    *((name, c_uint32) for name in ("maxTotalGroupSize", "maxGroupSizeX", "maxGroupSizeY", "maxGroupSizeZ")),
    *((name, c_uint32) for name in ("maxGroupCountX", "maxGroupCountY", "maxGroupCountZ", "maxSharedLocalMemory")),
    ("numSubGroupSizes", c_uint32),
    ("subGroupSizes", c_uint32 * 8),
)
ModuleProperties = _structure(
    "ModuleProperties",
    0x5,
    *((name, c_uint32) for name in ("spirvVersionSupported", "flags", "fp16flags", "fp32flags", "fp64flags")),
    *((name, c_uint32) for name in ("maxArgumentsSize", "printfBufferSize")),
    ("nativeKernelSupported", c_uint8 * 16),
)
QueueGroupProperties = _structure(
    "QueueGroupProperties", 0x6, ("flags", c_uint32), ("maxFillPattern", c_size_t), ("numQueues", c_uint32)
)
ContextDesc = _structure("ContextDesc", 0xD, ("flags", c_uint32))
QueueDesc = _structure(
    "QueueDesc", 0xE, *((name, c_uint32) for name in ("ordinal", "index", "flags", "mode", "priority"))
)
EventPoolDesc = _structure("EventPoolDesc", 0x10, ("flags", c_uint32), ("count", c_uint32))
EventDesc = _structure("EventDesc", 0x11, ("index", c_uint32), ("signal", c_uint32), ("wait", c_uint32))
DeviceMemoryDesc = _structure("DeviceMemoryDesc", 0x15, ("flags", c_uint32), ("ordinal", c_uint32))
HostMemoryDesc = _structure("HostMemoryDesc", 0x16, ("flags", c_uint32))
ModuleDesc = _structure(
    "ModuleDesc",
    0x1B,
    ("format", c_uint32),
    ("inputSize", c_size_t),
    ("pInputModule", c_char_p),
    ("pBuildFlags", c_char_p),
    ("pConstants", c_void_p),
)
KernelDesc = _structure("KernelDesc", 0x1D, ("flags", c_uint32), ("pKernelName", c_char_p))


class GroupCount(ctypes.Structure):
    """How many groups a launch has."""

    _fields_ = (("x", c_uint32), ("y", c_uint32), ("z", c_uint32))


_HANDLE, _POINTER, _NUMBER = c_void_p, c_void_p, POINTER(c_uint32)
_NEW: Any = POINTER(c_void_p)
_SYNC: Final = (_HANDLE, c_uint32, _POINTER)  # event to signal, number of events to wait for, those events
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "zeInit": (c_uint32,),
    "zeDriverGet": (_NUMBER, _POINTER),
    "zeDriverGetProperties": (_HANDLE, _POINTER),
    "zeDeviceGet": (_HANDLE, _NUMBER, _POINTER),
    "zeDeviceGetProperties": (_HANDLE, _POINTER),
    "zeDeviceGetComputeProperties": (_HANDLE, _POINTER),
    "zeDeviceGetModuleProperties": (_HANDLE, _POINTER),
    "zeDeviceGetCommandQueueGroupProperties": (_HANDLE, _NUMBER, _POINTER),
    "zeContextCreate": (_HANDLE, _POINTER, _NEW),
    "zeCommandListCreateImmediate": (_HANDLE, _HANDLE, _POINTER, _NEW),
    "zeCommandListAppendBarrier": (_HANDLE, *_SYNC),
    "zeCommandListAppendMemoryCopy": (_HANDLE, _POINTER, _POINTER, c_size_t, *_SYNC),
    "zeCommandListAppendMemoryFill": (_HANDLE, _POINTER, _POINTER, c_size_t, c_size_t, *_SYNC),
    "zeCommandListAppendLaunchKernel": (_HANDLE, _HANDLE, _POINTER, *_SYNC),
    "zeEventPoolCreate": (_HANDLE, _POINTER, c_uint32, _POINTER, _NEW),
    "zeEventCreate": (_HANDLE, _POINTER, _NEW),
    "zeEventHostSynchronize": (_HANDLE, c_uint64),
    "zeEventHostReset": (_HANDLE,),
    "zeMemAllocDevice": (_HANDLE, _POINTER, c_size_t, c_size_t, _HANDLE, _NEW),
    "zeMemAllocShared": (_HANDLE, _POINTER, _POINTER, c_size_t, c_size_t, _HANDLE, _NEW),
    "zeMemFree": (_HANDLE, _POINTER),
    "zeModuleCreate": (_HANDLE, _HANDLE, _POINTER, _NEW, _NEW),
    "zeModuleDestroy": (_HANDLE,),
    "zeModuleBuildLogGetString": (_HANDLE, POINTER(c_size_t), _POINTER),
    "zeModuleBuildLogDestroy": (_HANDLE,),
    "zeKernelCreate": (_HANDLE, _POINTER, _NEW),
    "zeKernelDestroy": (_HANDLE,),
    "zeKernelSetGroupSize": (_HANDLE, c_uint32, c_uint32, c_uint32),
    "zeKernelSetArgumentValue": (_HANDLE, c_uint32, c_size_t, _POINTER),
}


class LevelZeroError(RuntimeError):
    """Level Zero or its compiler refused something; the message has its words."""


class Driver:
    """The loader's functions by name: ``driver.zeInit(1)`` raises where C would return an error code.

    Raises
    ------
    LevelZeroError
        If there is no loader, or no driver for a GPU behind it. After a failed `zeInit` nothing else is called: the
        loader's `zeDriverGet` would take the process down.
    """

    def __init__(self) -> None:
        self._library = _load()
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, name, None)
            if function is None:
                raise LevelZeroError(f"the Level Zero loader has no {name}: it is older than version 1.0")
            function.argtypes, function.restype = arguments, c_int32
        try:
            self.zeInit(_GPU_ONLY)
        except LevelZeroError as problem:
            raise LevelZeroError(f"Level Zero's loader finds no driver with a GPU ({problem})") from None

    def __getattr__(self, name: str) -> Any:
        if name not in _SIGNATURES:
            raise AttributeError(name)
        function = getattr(self._library, name)

        def checked(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                raise error(code, name)

        setattr(self, name, checked)
        return checked

    def handles(self, name: str, *owner: Any) -> list[int]:
        """What a function with the parameters (owner, count, array) lists."""
        count = c_uint32()
        getattr(self, name)(*owner, byref(count), None)
        found = (c_void_p * max(1, count.value))()
        if count.value:
            getattr(self, name)(*owner, byref(count), found)
        return [handle for handle in found[: count.value] if handle]

    def new(self, name: str, *arguments: Any) -> c_void_p:
        """What a function makes whose last parameter receives the handle."""
        handle = c_void_p()
        getattr(self, name)(*arguments, byref(handle))
        return handle


def error(code: int, what: str) -> Exception:
    """The exception of a result of Level Zero."""
    name = _RESULTS.get(code & 0xFFFFFFFF, f"{code & 0xFFFFFFFF:#x}")
    message = f"{what}: ZE_RESULT_ERROR_{name}" if name[0] != "0" else f"{what}: ze_result_t {name}"
    return MemoryError(message) if code & 0xFFFFFFFF in _MEMORY else LevelZeroError(message)


def _load() -> Any:
    reasons = []
    for name in LOADERS:
        try:
            return ctypes.CDLL(name)
        except OSError as problem:
            reasons.append(str(problem))
    raise LevelZeroError(f"no Level Zero loader ({reasons[0]}); Debian and Ubuntu: apt install libze1")


@functools.cache
def driver() -> Driver:
    """The loader of this process."""
    return Driver()


class DeviceInfo:
    """A GPU and what it reports.

    Attributes
    ----------
    driver_handle, handle
        Of the driver and of the device.
    label, device_id, driver_version
        Which device it is; the number is the one that `ocloc` knows devices by.
    integrated
        Whether it shares the host's memory.
    f64, wide_atomics
        Whether it computes in f64, and has 64-bit atomics.
    most_lanes, most_groups, most_shared, most_bytes
        The largest workgroup, the most groups of a launch, the shared memory of a group, the largest allocation.
    queue_group, most_pattern
        The first queue group that runs kernels, and the bytes of the longest pattern that it fills memory with.
    """

    def __init__(self, ze: Driver, driver_handle: int, handle: int) -> None:
        self.driver_handle, self.handle = driver_handle, handle
        owner, device = DriverProperties(), DeviceProperties()
        compute, module = ComputeProperties(), ModuleProperties()
        ze.zeDriverGetProperties(driver_handle, byref(owner))
        ze.zeDeviceGetProperties(handle, byref(device))
        ze.zeDeviceGetComputeProperties(handle, byref(compute))
        ze.zeDeviceGetModuleProperties(handle, byref(module))
        self.is_gpu = device.type == _GPU
        self.label, self.device_id = device.name.decode(errors="replace"), int(device.deviceId)
        self.driver_version = int(owner.driverVersion)
        self.integrated = bool(device.flags & _INTEGRATED)
        self.f64 = bool(module.flags & _FP64)
        self.wide_atomics = bool(module.flags & _INT64_ATOMICS)
        self.most_lanes = min(int(compute.maxTotalGroupSize), int(compute.maxGroupSizeX))
        self.most_groups, self.most_shared = int(compute.maxGroupCountX), int(compute.maxSharedLocalMemory)
        self.most_bytes = int(device.maxMemAllocSize)
        self.queue_group, self.most_pattern = self._queue_group(ze)

    def _queue_group(self, ze: Driver) -> tuple[int, int]:
        count = c_uint32()
        ze.zeDeviceGetCommandQueueGroupProperties(self.handle, byref(count), None)
        groups = (QueueGroupProperties * max(1, count.value))(*(QueueGroupProperties() for _ in range(count.value)))
        ze.zeDeviceGetCommandQueueGroupProperties(self.handle, byref(count), groups)
        for number, group in enumerate(groups):
            if group.flags & _COMPUTE:
                return number, int(group.maxFillPattern)
        raise LevelZeroError(f"{self.label} has no queue that runs kernels")


@functools.cache
def find_devices() -> tuple[DeviceInfo, ...]:
    """The GPUs of all drivers, asked once.

    Raises
    ------
    LevelZeroError
        If there is no loader or no driver, or one fails.
    """
    ze = driver()
    found = [
        DeviceInfo(ze, owner, handle)
        for owner in ze.handles("zeDriverGet")
        for handle in ze.handles("zeDeviceGet", owner)
    ]
    return tuple(device for device in found if device.is_gpu)[:MAX_DEVICES]


def device_count() -> int:
    """How many GPUs Level Zero has on this machine; 0 without a loader or a driver."""
    try:
        return len(find_devices())
    except (LevelZeroError, MemoryError):
        return 0


def why_no_device() -> str:
    """Why there is none: the loader's or the driver's words."""
    try:
        return "Level Zero's drivers have no GPU" if not find_devices() else ""
    except (LevelZeroError, MemoryError) as problem:
        return str(problem)
