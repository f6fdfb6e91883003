"""Random numbers for simulations (rules RAND-*): in kernels, and on the host with NumPy arrays.

The generator, Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), has no hidden
state. A number is a function of ``(seed, stream, draw)``: the seed of a run, the stream of an iteration or particle,
and the number of the draw within it. So no iteration waits for another, results do not depend on the order of
iterations or on the device, and any number can be had again.

Integers and uniforms have the same bits on every device and on the host; `normal` and the directions may differ in
their last bits, as `log` and `cos` do.

Examples
--------
>>> @tack.kernel
... def walk(x, seed, step):
...     for i in range(x.shape[0]):
...         x[i] += tack.random.normal(seed, i, step)
>>> x = tack.zeros(1000, tack.f32)
>>> for step in range(10):
...     walk(x, 7, step)
>>> tack.random.uniform(7, np.arange(4)).shape  # on the host
(4,)
"""

from tack.lang.random_functions import (
    direction2,
    direction3,
    normal,
    normal64,
    philox,
    randint,
    uniform,
    uniform64,
)

__all__ = ["direction2", "direction3", "normal", "normal64", "philox", "randint", "uniform", "uniform64"]
