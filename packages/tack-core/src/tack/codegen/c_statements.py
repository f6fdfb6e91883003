"""Statements and device functions in C."""

from __future__ import annotations

from tack.codegen.c_dialect import BodyText, mangle
from tack.codegen.c_expressions import CArray, ExpressionEmitter, extent_name, image_name
from tack.codegen.c_textures import sampler_lines
from tack.lang import ir
from tack.lang.diagnostics import UnsupportedSyntaxError, fail
from tack.lang.types import ArrayType, DType, f32, i64, u64


class StatementEmitter(ExpressionEmitter):
    """Walks statements. `loops` counts the serial loops around the statement being written."""

    loops: int
    aliasing: bool  # arrays of different types may overlap, and C must not assume that they do not

    # -- functions

    def _begin(self, function: ir.IRFunction) -> None:
        self.function, self.b, self.arrays, self.used, self.loops = function, BodyText(), {}, {}, 0
        self._fusable = set()
        for table in function.tables.values():
            self._table(function, table)

    def _table(self, function: ir.IRFunction, table: ir.IRTable) -> None:
        """A captured tuple, as constant data of the module."""
        assert table.dtype is not None
        owner = "k" if function is self.kernel else "f"
        name = f"c_{owner}_{mangle(function.name)}_{mangle(table.name)}"
        values = ", ".join(self.dialect.literal(value, table.dtype) for value in table.values)
        text = f"{self.dialect.table} {self._type(table.dtype)} {name}[{len(table.values)}] = {{{values}}};\n"
        self.module.declarations.setdefault(name, text)
        extents = tuple(self.dialect.literal(extent, i64) for extent in table.shape)
        self.arrays[table.name] = CArray(name, table.dtype, "constant", extents)

    def _element_type(self, dtype: DType, space: str) -> str:
        """The type of an array's elements; one that may alias others where another array may be the same memory."""
        if not self.aliasing or space != "global":
            return self._type(dtype)
        name = f"tack_any_{dtype.name}"
        text = f"typedef {self._type(dtype)} __attribute__((may_alias)) {name};\n"
        self.module.declarations.setdefault(name, text)
        return name

    def _pointer_type(self, param: ir.IRParam) -> str:
        assert isinstance(param.type, ArrayType)
        space = param.type.space
        const = "" if param.written or space != "global" else "const "
        return f"{self.dialect.spaces[space]}{const}{self._element_type(param.type.dtype, space)}*"

    def _device_function(self, symbol: str, function: ir.IRFunction) -> None:
        self._begin(function)
        formals: list[str] = []
        for param in function.params:
            if isinstance(param.type, ArrayType):
                formals += self._array_formals(param, param.type)
            else:
                assert param.type is not None
                formals.append(f"{self._type(param.type)} {self._variable(param.name)}")
        if function.samples and self.sampled:
            self._ask_sampler(function)
        self._locals(function.body)
        self._block(function.body)
        if function.results and not (function.body and isinstance(function.body[-1], ir.IRReturn)):
            self._return_zero(function)
        header = f"{self._function_words()} {self._result_type(symbol, function)} f_{mangle(symbol)}"
        self.module.functions.append(f"{header}({', '.join(formals) or 'void'}) {{\n{self.b.text()}}}\n")

    def _function_words(self) -> str:
        """What stands before a device function that has just been written."""
        return self.dialect.function

    def _array_formals(self, param: ir.IRParam, array_type: ArrayType) -> list[str]:
        pointer = f"a_{mangle(param.name)}"
        formals = [f"{self._pointer_type(param)} {pointer}"]
        if array_type.shape is None:
            extents = tuple(extent_name(param.name, axis) for axis in range(array_type.ndim))
            formals += [f"{self._type(i64)} {extent}" for extent in extents]
        else:
            extents = tuple(self.dialect.literal(extent, i64) for extent in array_type.shape)
        self.arrays[param.name] = CArray(pointer, array_type.dtype, array_type.space, extents)
        if param.name in self.sampled.get(id(self.function), ()):
            formals.append(f"{self.dialect.image} {image_name(param.name)}")
        return formals

    def _ask_sampler(self, function: ir.IRFunction) -> None:
        """`Texture3D.sample` on a device with images: the sampler first."""
        texels = next(p.name for p in function.params if isinstance(p.type, ArrayType))
        coordinates = [self._variable(p.name) for p in function.params if p.name != texels]
        points = list(zip(coordinates, self._extents(texels)[::-1], strict=True))
        low, high = (self._call_math(name, f32, "{}", "{}") for name in ("fmax", "fmin"))
        for line in sampler_lines(self.dialect.image_sample, image_name(texels), points, low, high):
            self.b.do(line)

    def _result_type(self, symbol: str, function: ir.IRFunction) -> str:
        """Nothing, a number, or a structure of several."""
        if len(function.results) < 2:
            return self._type(function.results[0]) if function.results else "void"
        name = f"r_{mangle(symbol)}"
        fields = "".join(f"    {self._type(t)} r{i};\n" for i, t in enumerate(function.results))
        self.module.declarations.setdefault(name, f"typedef struct {{\n{fields}}} {name};\n")
        return name

    def _return_zero(self, function: ir.IRFunction) -> None:
        """An end that no path reaches, or one whose result nobody may read: defined all the same."""
        if len(function.results) == 1:
            self.b.do(f"return {self.dialect.literal(0, function.results[0])};")
            return
        values = [self.dialect.literal(0, t) for t in function.results]
        self._return_several(values)

    def _return_several(self, values: list[str]) -> None:
        result = self.b.name()
        self.b.do(f"{self._result_type(self.function.name, self.function)} {result};")
        for position, value in enumerate(values):
            self.b.do(f"{result}.r{position} = {value};")
        self.b.do(f"return {result};")

    def _locals(self, body: list[ir.IRStmt], known: frozenset[str] = frozenset()) -> None:
        """Declare the scalars that statements name, and the local arrays, except parameters and what is `known`."""
        names = _scalars_of(body) - {param.name for param in self.function.params} - known
        for symbol in self.function.symbols.values():
            if symbol.name in names and symbol.dtype is not None:
                zero = self.dialect.literal(0, symbol.dtype)
                self.b.do(f"{self._type(symbol.dtype)} {self._variable(symbol.name)} = {zero};")
        for node in ir.walk(body):
            if isinstance(node, ir.IRLocalArray) and node.name not in self.arrays:
                self._local_array(node)

    def _local_array(self, node: ir.IRLocalArray) -> None:
        size = 1
        for extent in node.shape:
            size *= extent
        name = f"l_{mangle(node.name)}"
        self.b.do(f"{self._type(node.element)} {name}[{size}];")
        extents = tuple(self.dialect.literal(extent, i64) for extent in node.shape)
        self.arrays[node.name] = CArray(name, node.element, "private", extents)

    # -- statements

    def _block(self, statements: list[ir.IRStmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ir.IRStmt) -> None:
        match node:
            case ir.IRAssign():
                self._emit_assign(node)
            case ir.IRStore():
                self._store(node)
            case ir.IRExprStmt():
                self.b.do(f"{self._effect(node.value)};")
            case ir.IRUnpack():
                self._unpack(node)
            case ir.IRIf():
                self._if(node)
            case ir.IRWhile():
                self._while(node)
            case ir.IRFor():
                self._for(node)
            case ir.IRBreak():
                self.b.do("break;")
            case ir.IRContinue():
                self.b.do("continue;" if self.loops else "return;")
            case ir.IRReturn():
                self._return(node)
            case ir.IRLocalArray() | ir.IRAssert():
                pass  # declared at the top; asserts are those of checked mode, another variant
            case ir.IRPrint():
                message = f"device {self.dialect.device} cannot print from a kernel"
                fail(UnsupportedSyntaxError, message, node.loc, hint="store the values to an array and print that")
            case _:
                raise AssertionError(f"no lowering of {type(node).__name__}")

    def _store(self, node: ir.IRStore) -> None:
        value, *index = self._operands((node.value, *node.index))
        self.b.do(f"{self._element(node.array, index)} = {value};")

    def _effect(self, node: ir.IRExpr) -> str:
        """For its effect; a call may have no result, or several that nobody wants."""
        return self._atomic(node) if isinstance(node, ir.IRAtomic) else self._call_of(node)

    def _call_of(self, node: ir.IRExpr) -> str:
        assert isinstance(node, ir.IRCall)
        return self._call(node)

    def _emit_assign(self, node: ir.IRAssign) -> None:
        self.b.do(f"{self._variable(node.name)} = {self._expr(node.value)};")

    def _unpack(self, node: ir.IRUnpack) -> None:
        assert node.call.symbol is not None
        function = self.kernel.functions[node.call.symbol]
        text = self._call(node.call)
        if len(function.results) == 1:
            self.b.do(f"{self._variable(node.names[0])} = {text};")
            return
        result = self.b.name()
        self.b.do(f"const {self._result_type(node.call.symbol, function)} {result} = {text};")
        for position, name in enumerate(node.names):
            self.b.do(f"{self._variable(name)} = {result}.r{position};")

    def _return(self, node: ir.IRReturn) -> None:
        values = self._operands(node.values)
        if len(values) > 1:
            self._return_several(values)
        else:
            self.b.do(f"return {values[0]};" if values else "return;")

    # -- control flow

    def _if(self, node: ir.IRIf) -> None:
        self.b.open(f"if {self._condition(node.cond)}")
        self._block(node.then)
        if node.other:
            self.b.otherwise()
            self._block(node.other)
        self.b.close()

    def _while(self, node: ir.IRWhile) -> None:
        if self.facts.needs_statements(node.cond):
            self.b.open("for (;;)")
            self.b.do(f"if (!{self._condition(node.cond)}) break;")
        else:
            self.b.open(f"while {self._condition(node.cond)}")
        self._loop_body(node.body)

    def _loop_body(self, body: list[ir.IRStmt]) -> None:
        self.loops += 1
        self._block(body)
        self.loops -= 1
        self.b.close()

    def _for(self, node: ir.IRFor) -> None:
        """A hidden counter that cannot overflow: of values where the step is 1, of iterations otherwise."""
        start, stop, step = self._operands((node.start, node.stop, node.step))
        start, stop = (self._steady(node_, text) for node_, text in ((node.start, start), (node.stop, stop)))
        wide, unsigned, counter = self._type(i64), self._type(u64), self.b.name()
        if isinstance(node.step, ir.IRConst) and node.step.value == 1:
            self.b.open(f"for ({wide} {counter} = {start}; {counter} < {stop}; ++{counter})")
            self.b.do(f"{self._variable(node.var)} = {counter};")
        else:
            step = self._steady(node.step, step)
            span = f"(({unsigned}){stop} - ({unsigned}){start} - 1u) / ({unsigned}){step} + 1u"
            trips = self._temporary(f"{start} < {stop} ? {span} : 0u", u64)
            self.b.open(f"for ({unsigned} {counter} = 0u; {counter} < {trips}; ++{counter})")
            value = self.integers.read_bits(i64, f"({unsigned}){start} + {counter} * ({unsigned}){step}")
            self.b.do(f"{self._variable(node.var)} = {value};")
        self._loop_body(node.body)

    def _steady(self, node: ir.IRExpr, text: str) -> str:
        """A bound that the loop's body cannot change."""
        return text if isinstance(node, (ir.IRConst, ir.IRArrayAttr)) else self._temporary(text, i64)


def _scalars_of(body: list[ir.IRStmt]) -> set[str]:
    names: set[str] = set()
    for node in ir.walk(body):
        match node:
            case ir.IRVar(name=name) | ir.IRAssign(name=name) | ir.IRBind(name=name) | ir.IRFor(var=name):
                names.add(name)
            case ir.IRUnpack():
                names.update(node.names)
    return names
