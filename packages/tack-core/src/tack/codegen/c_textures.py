"""Textures as images in C: which array parameters are textures, and what the sampler does before the software does.

A texture's snapshot is an ordinary array, and `Texture3D.sample` is written in the language. Where the device filters
images, a function that samples takes an image of the same texels too, and asks it first. What the sampler gives counts
if it is finite: an infinity or NaN next to a point may have weight zero, which only the software leaves out (TEX-2).
A texture that the device makes no image of comes with an image of one NaN, so that the software answers.
"""

from __future__ import annotations

from tack.lang import ir
from tack.lang.types import ArrayType


def sampled_arrays(kernel: ir.IRKernel) -> dict[int, frozenset[str]]:
    """The array parameters that reach `Texture3D.sample`, of the kernel and each of its functions, by their `id`."""
    found: dict[int, frozenset[str]] = {}
    for function in (*kernel.functions.values(), kernel):  # callees before callers
        names = {p.name for p in function.params if function.samples and isinstance(p.type, ArrayType)}
        for node in ir.walk(function.body):
            if isinstance(node, ir.IRCall) and node.symbol is not None:
                callee = kernel.functions[node.symbol]
                pairs = zip(callee.params, node.args, strict=True)
                sampled = found[id(callee)]
                names |= {a.name for p, a in pairs if p.name in sampled and isinstance(a, ir.IRArrayRef)}
        found[id(function)] = frozenset(names & {p.name for p in function.params})
    return found


def sampler_lines(sample: str, image: str, points: list[tuple[str, str]], low: str, high: str) -> list[str]:
    """Lines that return the sampler's value if it is finite.

    `sample` has places for the image and for coordinates in texels, the first centre at 0.5; `points` are each
    coordinate on [0, 1] with its extent. Clamped between the outermost centres, the address mode does not matter and a
    NaN is the first centre. `low` and `high` are the texts of the two functions that clamp, with places for operands.
    """
    lines = []
    for axis, (coordinate, extent) in zip("xyz", points, strict=True):
        inner = low.format(f"(float){coordinate} * (float){extent}", "0.5f")
        lines.append(f"const float i{axis} = {high.format(inner, f'(float){extent} - 0.5f')};")
    value = sample.format(image=image, x="ix", y="iy", z="iz")
    return [*lines, f"const float filtered = {value};", "if (filtered - filtered == 0.0f) return filtered;"]
