"""The `tack` command: ``tack cache [show | clear | warm SCRIPT [ARGUMENT ...]]``."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

from tack.runtime.disk_cache import cache

USAGE = """usage: tack cache [show]                       where the disk cache is, and what is in it
       tack cache clear                        delete what is in it
       tack cache warm SCRIPT [ARGUMENT ...]   run a Python program, so that its kernels are in it
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status.

    Parameters
    ----------
    arguments
        The words after the command's name; those of the process if None.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words:
        case ["cache"] | ["cache", "show"]:
            return show()
        case ["cache", "clear"]:
            return clear()
        case ["cache", "warm", script, *rest]:
            return warm(script, rest)
    print(USAGE, end="", file=sys.stdout if words in (["-h"], ["--help"]) else sys.stderr)
    return 0 if words in (["-h"], ["--help"]) else 2


def show() -> int:
    """Print the folder, its entries and what keeps it from being used."""
    store = cache()
    if store is None:
        print("The disk cache is off (TACK_CACHE=0, or there is no home directory).")
        return 0
    entries = store.entries()
    print(f"folder:  {store.folder}")
    print(f"entries: {len(entries)}")
    print(f"size:    {sum(e.size for e in entries) / 2**20:.1f} of {store.limit / 2**20:.0f} MiB")
    problem = store.problem()
    if problem is not None:
        print(f"It is not used: {problem}.")
    return 0 if problem is None else 1


def clear() -> int:
    """Delete all entries."""
    store = cache()
    if store is not None:
        print(f"{store.clear()} entries deleted from {store.folder}")
    return 0


def warm(script: str, arguments: Sequence[str]) -> int:
    """Run a program as ``python SCRIPT`` would; what its kernels compile to is then in the cache."""
    before = sys.argv
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
    return show()


if __name__ == "__main__":
    sys.exit(main())
