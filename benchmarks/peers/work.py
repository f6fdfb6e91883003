"""What an adapter of a peer returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Work:
    """One run of a workload, as a peer does it.

    Attributes
    ----------
    function, arguments
        The call that is timed; it returns when the work is done.
    finish : callable
        Copies results into the workload's outputs where the peer has memory of its own; not timed.
    restart : callable
        Takes the workload's arrays again, after they were put back to their start; not timed.
    """

    function: Callable[..., object]
    arguments: tuple[object, ...] = ()
    finish: Callable[[], object] = _nothing
    restart: Callable[[], object] = _nothing
