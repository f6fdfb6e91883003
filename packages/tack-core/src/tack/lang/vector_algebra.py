"""Operations on whole vectors and matrices, written out in numbers (rule VEC-10). Sums run in index order.

Every argument is the list of its components, row-major, cheap to repeat; `keep` puts a number into a temporary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tack.lang.diagnostics import Loc
from tack.lang.ir import IRBinOp, IRBoolOp, IRBuiltin, IRConst, IRExpr, IRSelect, IRUnary
from tack.lang.purity import fresh
from tack.lang.records import record
from tack.lang.types import DType, i32

Parts = list[IRExpr]
Shape = tuple[int, ...]

USED_ONCE = ("dot", "distance", "transpose", "trace", "any", "all", "select")
"""Operations that use each component of their arguments at most once."""


@record(frozen=True)
class Algebra:
    """The formulas at one number type."""

    number: DType
    loc: Loc
    keep: Callable[[IRExpr], IRExpr]

    def expand(self, name: str, args: list[Parts], shapes: list[Shape]) -> Parts:
        """The components of the result; one for a number."""
        match name:
            case "dot":
                return [self.dot(*args)]
            case "cross":
                return self.cross(*args)
            case "length":
                return [self.length(args[0])]
            case "distance":
                return [self.length([self.keep(self.sub(a, b)) for a, b in zip(*args, strict=True)])]
            case "normalize":
                length = self.keep(self.length(args[0]))
                return [self.operation("/", a, length) for a in args[0]]
            case "reflect":
                twice = self.keep(self.mul(self.const(2), self.dot(args[1], args[0])))
                return [self.sub(a, self.mul(twice, n)) for a, n in zip(*args, strict=True)]
            case "outer":
                return [self.mul(a, b) for a in args[0] for b in args[1]]
            case "transpose":
                rows, columns = shapes[0]
                return [args[0][i * columns + j] for j in range(columns) for i in range(rows)]
            case "trace":
                return [self.sum(args[0][:: shapes[0][0] + 1])]
            case "any" | "all":
                return [IRBoolOp(loc=self.loc, op="or" if name == "any" else "and", values=args[0], dtype=i32)]
            case "matmul":
                return self.matmul(args[0], args[1], shapes[0], shapes[1])
            case "select":
                return [
                    IRSelect(loc=self.loc, cond=c, then=a, other=b, dtype=self.number)
                    for c, a, b in zip(*args, strict=True)
                ]
        rows = shapes[0][0]
        matrix = [args[0][i * rows : (i + 1) * rows] for i in range(rows)]
        return [self.determinant(matrix)] if name == "determinant" else self.inverse(matrix)

    # ------------------------------------------------------------------------------------------------------ numbers

    def const(self, value: int) -> IRExpr:
        return IRConst(loc=self.loc, value=float(value) if self.number.is_float else value, dtype=self.number)

    def operation(self, op: str, left: IRExpr, right: IRExpr) -> IRExpr:
        return IRBinOp(loc=self.loc, op=op, left=fresh(left), right=fresh(right), dtype=self.number)

    def mul(self, left: IRExpr, right: IRExpr) -> IRExpr:
        return self.operation("*", left, right)

    def sub(self, left: IRExpr, right: IRExpr) -> IRExpr:
        return self.operation("-", left, right)

    def sum(self, terms: Iterable[IRExpr]) -> IRExpr:
        total, *rest = terms
        for term in rest:
            total = self.operation("+", total, term)
        return total

    # ------------------------------------------------------------------------------------------------------ formulas

    def dot(self, left: Parts, right: Parts) -> IRExpr:
        return self.sum(self.mul(a, b) for a, b in zip(left, right, strict=True))

    def length(self, vector: Parts) -> IRExpr:
        square = self.dot(vector, vector)
        return IRBuiltin(loc=self.loc, name="sqrt", args=[square], dtype=self.number, _operand_type=self.number)

    def cross(self, a: Parts, b: Parts) -> Parts:
        order = ((1, 2), (2, 0), (0, 1))
        return [self.sub(self.mul(a[i], b[j]), self.mul(a[j], b[i])) for i, j in order]

    def matmul(self, left: Parts, right: Parts, left_shape: Shape, right_shape: Shape) -> Parts:
        inner = right_shape[0]
        columns = right_shape[1] if len(right_shape) == 2 else 1
        return [
            self.dot(left[row : row + inner], right[column::columns])
            for row in range(0, len(left), inner)
            for column in range(columns)
        ]

    def determinant(self, matrix: list[Parts]) -> IRExpr:
        """Expansion along the first row; the signs alternate."""
        if len(matrix) == 1:
            return matrix[0][0]
        total: IRExpr | None = None
        for column, head in enumerate(matrix[0]):
            term = self.mul(head, self.determinant(_minor(matrix, 0, column)))
            total = term if total is None else self.operation("-" if column % 2 else "+", total, term)
        assert total is not None
        return total

    def inverse(self, matrix: list[Parts]) -> Parts:
        """The adjugate, each number of it divided by the determinant."""
        determinant = self.keep(self.determinant(matrix))
        size = range(len(matrix))
        return [self.operation("/", self.cofactor(matrix, j, i), determinant) for i in size for j in size]

    def cofactor(self, matrix: list[Parts], row: int, column: int) -> IRExpr:
        minor = self.determinant(_minor(matrix, row, column))
        if (row + column) % 2 == 0:
            return minor
        return IRUnary(loc=self.loc, op="-", operand=fresh(minor), dtype=self.number)


def _minor(matrix: list[Parts], row: int, column: int) -> list[Parts]:
    return [line[:column] + line[column + 1 :] for i, line in enumerate(matrix) if i != row]
