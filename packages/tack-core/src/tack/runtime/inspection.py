"""`tack.inspect`: every stage of a kernel as text."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tack.lang.kernel import Kernel


def inspect(kernel: Kernel | types.MethodType, *args: Any, **kwargs: Any) -> dict[str, str]:
    """The stages of `kernel`, by name, as text; nothing is run.

    Parameters
    ----------
    kernel
        A function decorated with ``@tack.kernel``, or such a method of an instance, ``obj.step``.
    *args, **kwargs
        Arguments as for a call. Without any, only the stages that need no types are given.

    Returns
    -------
    dict of str to str
        "source", "ast", "ir"; with arguments also "typed" and the device's own stages ("llvm", "optimised", "asm").

    Raises
    ------
    TypeError
        If `kernel` is not a kernel.
    TypeError, ValueError, NameError, UnsupportedSyntaxError
        As a call would.

    Examples
    --------
    >>> print(tack.inspect(double, x, y)["typed"])  # doctest: +SKIP
    """
    # The compiler is loaded when it is first needed, so that `import tack` stays light.
    from tack.lang.depth import nesting_explained
    from tack.lang.ir_print import print_ir
    from tack.lang.kernel import Kernel
    from tack.runtime.backend import VariantOptions
    from tack.runtime.compilation import for_backend, type_kernel
    from tack.runtime.dispatch import prepare

    typed_too = bool(args or kwargs)
    function: Any = kernel
    if isinstance(kernel, types.MethodType):
        function, args = kernel.__func__, (kernel.__self__, *args)
    if not isinstance(function, Kernel):
        raise TypeError(f"tack.inspect takes a kernel (@tack.kernel), not {kernel!r:.60}")
    state = prepare(function)
    typed_too = typed_too or len(args) == state.count > 0
    lowering, call = state.bind(args, kwargs) if typed_too else (state.lowering_for(args)[0], None)
    ir = lowering.ir
    tree = function.source.tree
    stages = {"source": ast.unparse(tree), "ast": ast.dump(tree, indent=2), "ir": print_ir(ir)}
    if call is not None:
        with nesting_explained(function.source):
            typed = type_kernel(lowering.ir, call.values)
        backend = call.device.backend
        disjoint = "alias_variants" in backend.capabilities and call.is_disjoint(lowering.written)
        stages["typed"] = print_ir(typed)
        stages |= backend.inspect(for_backend(typed, backend), VariantOptions(disjoint=disjoint))
    return stages
