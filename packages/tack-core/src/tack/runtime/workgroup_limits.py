"""Whether a device that runs one thread a lane can run a kernel's workgroups."""

from __future__ import annotations

from tack.codegen.c_workgroups import shared_bytes
from tack.lang.diagnostics import fail
from tack.lang.ir import IRKernel, IRWorkgroup


def check_workgroups(kernel: IRKernel, device: str, most_lanes: int, most_bytes: int) -> None:
    """Refuse what the device cannot launch, before its driver does in words of its own.

    Parameters
    ----------
    kernel
        Typed, workgroups split.
    device
        The device's name, for messages.
    most_lanes, most_bytes
        The device's largest workgroup, and the shared memory that one may have.

    Raises
    ------
    ValueError
        If a loop has more lanes a workgroup, or more shared memory, than the device allows; with the loop's place.
    """
    for loop in (s for s in kernel.body if isinstance(s, IRWorkgroup)):
        if loop.group > most_lanes:
            message = f"device {device} runs at most {most_lanes} lanes a workgroup, and this loop has {loop.group}"
            fail(ValueError, message, loop.loc, hint=f"write @tack.kernel(group={1 << most_lanes.bit_length() - 1})")
        needed = shared_bytes(loop)
        if needed > most_bytes:
            message = (
                f"device {device} has {most_bytes} bytes of shared memory a workgroup, and this loop needs {needed}"
            )
            fail(ValueError, message, loop.loc, hint="make the shared arrays smaller, or the group")
