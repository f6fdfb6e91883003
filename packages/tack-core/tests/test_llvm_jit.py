"""LLVM's own linker, for code that Tack does not link itself: sections far apart do not stop it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Leaves room beside the code for no more than a page: single free pages, and below them nothing for 8 GiB.
PROGRAM = '''
import ctypes, mmap, sys
from tack.runtime.llvm_jit import compiler

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserve(nbytes):
    return libc.mmap(None, nbytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)

text = """
@table = internal global [16777216 x i32] zeroinitializer
define i32 @square(i64 %i) {
  %p = getelementptr [16777216 x i32], ptr @table, i64 0, i64 %i
  %n = trunc i64 %i to i32
  %v = mul i32 %n, %n
  store volatile i32 %v, ptr %p
  %r = load volatile i32, ptr %p
  ret i32 %r
}
"""
image = compiler().compile_small(text, far=sys.argv[1] == "far")
compiler().load(compiler().compile_small("define void @warm() { ret void }", far=True), ("warm",), {})
pages = reserve(64 * mmap.PAGESIZE)
reserve(8 << 30)
for i in range(1, 63, 2):
    libc.munmap(pages + i * mmap.PAGESIZE, mmap.PAGESIZE)
library = compiler().load(image, ("square",), {})
print(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(library.addresses["square"])(77))
'''


def run(model: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, model], capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="the program reserves memory as Linux does")
def test_code_and_constants_lie_far_apart() -> None:
    """CACHE-1: an object for LLVM's linker may have its constants anywhere."""
    done = run("far")
    assert (done.returncode, done.stdout) == (0, "5929\n"), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the program reserves memory as Linux does")
def test_the_program_does_put_them_far_apart() -> None:
    """What the linker makes of code that expects its constants near: it aborts, or jumps to nowhere."""
    done = run("near")
    assert done.returncode != 0 or done.stdout != "5929\n"
