"""Points in the order of a device's calls, to time kernels by the device's own clock."""

from __future__ import annotations

from tack.runtime.device import Device, current_device
from tack.runtime.device import device as as_device


class Event:
    """The point in time when everything that a device was given so far has finished. Making one does not wait.

    Parameters
    ----------
    device
        A name or a `tack.Device`; by default the current device.

    Examples
    --------
    >>> start = tack.Event()
    >>> x = tack.zeros(1000)
    >>> tack.Event().seconds_since(start) >= 0.0
    True
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self._device = current_device() if device is None else as_device(device)
        self._mark = self._device.backend.mark()

    def seconds_since(self, earlier: Event) -> float:
        """The seconds from an earlier event of the same device to this one; waits for both.

        Raises
        ------
        ValueError
            If the events are of different devices.
        """
        if self._device != earlier._device:
            raise ValueError(f"events of {self._device.name} and {earlier._device.name} have no common clock")
        return self._device.backend.seconds_between(earlier._mark, self._mark)
