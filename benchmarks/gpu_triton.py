"""The kernel of `gpu_launch` in Triton, which wants it in a file of its own."""

import triton
import triton.language as tl


@triton.jit
def saxpy(a, x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, a * tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)
