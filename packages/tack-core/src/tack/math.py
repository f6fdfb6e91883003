"""Device functions for everyday formulas (rule MATH-5): use them in kernels as ``tack.math.clamp(x, low, high)``."""

from tack.lang.math_functions import clamp, degrees, fract, mix, radians, saturate, sign, smoothstep, step

__all__ = ["clamp", "degrees", "fract", "mix", "radians", "saturate", "sign", "smoothstep", "step"]
