"""The queue and the programs of an OpenCL device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyopencl as cl

from tack.runtime.opencl_memory import BufferTable
from tack.runtime.queued_launch import LaunchQueue

# Devices limit the size of a launch, some to 2**31 threads.
_MOST_THREADS: Final = 1 << 30


class Stream(LaunchQueue):
    """What all kernels of a device share.

    OpenCL forbids two threads to set the arguments of one kernel at once: only with the lock held are they set.
    """

    driver_errors: ClassVar[tuple[type[Exception], ...]] = (cl.Error,)

    def __init__(self, device: cl.Device) -> None:
        super().__init__()
        self.device, self.label = device, f"OpenCL device {device.name}"
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)  # in order: the default
        self.buffers = BufferTable(self.context, self.queue)
        self.lock = threading.RLock()
        self.most_groups = _MOST_THREADS // device.max_work_group_size

    def flush(self) -> None:
        self.queue.flush()

    def resolve(self, address: int) -> cl.Buffer:
        buffer, offset = self.buffers.find(address)
        assert offset == 0, "an array that starts inside its buffer"  # none does: the host makes no slices
        return buffer

    def texture(self, address: int, shape: tuple[int, ...]) -> cl.Image:
        return self.buffers.image(address, shape)

    def launch(self, function: cl.Kernel, values: Sequence[Any], groups: int, group: int) -> None:
        for index, value in enumerate(values):
            function.set_arg(index, value)
        cl.enqueue_nd_range_kernel(self.queue, function, (groups * group,), (group,))

    def cell(self, nbytes: int) -> Any:
        return self.buffers.allocate(nbytes)

    def read(self, cell: Any, nbytes: int) -> bytes:
        found = np.zeros(nbytes, np.uint8)
        self.buffers.download(cell.address, found)
        return found.tobytes()


class Program:
    """A built program of a device; the kernels of one text share it.

    Raises
    ------
    RuntimeError
        If the device cannot compile it; the message has the compiler's words and the numbered text.
    """

    def __init__(self, stream: Stream, options: Sequence[str], source: str, name: str) -> None:
        # Not `pyopencl.Program`: it adds an include path, the options in an environment variable, which may be unsafe
        # ones, and a cache on disk.
        self.built = cl._cl._Program(stream.context, source)
        try:
            self.built._build(options=" ".join(options).encode(), devices=[stream.device])
        except cl.Error as error:
            log = "\n".join(text for _, text in self.built._get_build_logs() if text)
            lines = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(source.splitlines(), 1))
            raise RuntimeError(
                f"kernel `{name}`: {stream.device.name} cannot compile its OpenCL C, which is an error of Tack or "
                f"of the driver: {error}\n{log}\n{lines}"
            ) from None

    def function(self, name: str) -> cl.Kernel:
        """The kernel of a name, for one executable: its arguments are part of it."""
        return cl.Kernel(self.built, name)
