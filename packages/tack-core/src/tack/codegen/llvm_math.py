"""Mathematical functions as internal functions of a module, for scalars and for vectors, with the same bits in both."""

from __future__ import annotations

from tack.codegen.llvm_formula import Formula, Real
from tack.codegen.llvm_values import PURE, ModuleText, llvm_type
from tack.codegen.math_kernels import FUNCTIONS, whole_power
from tack.lang.types import DType, f32


def math_function(module: ModuleText, name: str, dtype: DType, lanes: int) -> str:
    """The symbol of a function on scalars (`lanes` is 0) or vectors; its text goes to the module's helpers.

    Parameters
    ----------
    name
        A key of `FUNCTIONS`, or ``pow`` and a positive whole number for the power of that exponent.
    dtype
        The type of arguments and result, f32 or f64. It is computed in binary64.
    """
    symbol = f"__tack_{name}_{dtype.name}_{lanes}__"
    if symbol in module.helpers:
        return symbol
    m, short = Formula(module, lanes, dtype is f32), dtype is f32
    t, wide = m.type(llvm_type(dtype)), m.type("double")
    parameters = ("%x", "%y")[: 2 if name in ("pow", "atan2") else 1]
    operands = []
    for parameter in parameters:
        given = m.f.emit(f"freeze {t} {parameter}")  # lanes that are off may hold poison, and there are branches
        operands.append(Real(m, m.f.emit(f"fpext {t} {given} to {wide}") if short else given))
    formula = FUNCTIONS[name] if name in FUNCTIONS else whole_power(int(name.removeprefix("pow")))
    result = formula(m, *operands).ssa
    m.f.close(f"ret {t} {m.f.emit(f'fptrunc {wide} {result} to {t}') if short else result}")
    header = f"define internal {t} @{symbol}({', '.join(f'{t} {p}' for p in parameters)}) {PURE}"
    module.helpers[symbol] = m.f.text(header)
    return symbol
