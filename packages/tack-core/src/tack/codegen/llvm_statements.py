"""Statements and functions in LLVM: control flow, locals, local arrays, printing, device functions."""

from __future__ import annotations

from typing import Final

from tack.codegen.llvm_control import ControlEmitter
from tack.codegen.llvm_expressions import function_symbol, result_type
from tack.codegen.llvm_memory import typed
from tack.codegen.llvm_values import ArrayStorage, FunctionText, Value, literal, llvm_type, mangle
from tack.lang import ir
from tack.lang.inlining import IRInlined, IRLeave
from tack.lang.records import record
from tack.lang.types import ArrayType, DType

PRINT_SYMBOL: Final = "tack_print"
"""``void tack_print(i64 site, ptr values)``: the runtime's side of `print`; values as words of the argument block."""


@record(frozen=True)
class PrintSite:
    """One `print` of the source: its literal texts, and the types of the values between them."""

    parts: tuple[str | DType, ...]


class StatementEmitter(ControlEmitter):
    """Walks statements."""

    def __init__(self) -> None:
        super().__init__()
        self.print_sites: list[PrintSite] = []

    # -- functions

    def _begin_function(self, function: ir.IRFunction) -> None:
        """A fresh function text, with a slot for each scalar symbol and a place for each table."""
        self.function, self.f, self.slots, self.arrays, self.regions = function, FunctionText(), {}, {}, []
        self._wide, self._widened = {}, {}
        for symbol in function.symbols.values():
            if symbol.dtype is not None:
                slot = self.f.slot(llvm_type(symbol.dtype), f"%v.{mangle(symbol.name)}")
                self.slots[symbol.name] = slot, symbol.dtype
        for param in function.params:
            if isinstance(param.type, DType) and param.name not in self.slots:
                self.slots[param.name] = self.f.slot(llvm_type(param.type), f"%v.{mangle(param.name)}"), param.type
        for table in function.tables.values():
            assert table.dtype is not None
            storage = self._table_global(function, table), table.dtype
            self.arrays[table.name] = ArrayStorage(*storage, tuple(map(str, table.shape)), table.dtype.itemsize)

    def _table_global(self, function: ir.IRFunction, table: ir.IRTable) -> str:
        assert table.dtype is not None
        kind = "kernel" if function is self.kernel else "func"
        name, t = f"@table.{kind}.{mangle(function.name)}.{mangle(table.name)}", llvm_type(table.dtype)
        items = ", ".join(f"{t} {literal(v, table.dtype)}" for v in table.values)
        text = f"{name} = private unnamed_addr constant [{len(table.values)} x {t}] [{items}]"
        if text not in self.module.globals:
            self.module.globals.append(text)
        return name

    def _formal_parameters(self, function: ir.IRFunction, noalias: bool) -> list[str]:
        """The parameter list of a function; binds its arrays, and stores its scalars in their slots."""
        formals: list[str] = []
        for param in function.params:
            name = f"%a.{mangle(param.name)}"
            if not isinstance(param.type, ArrayType):
                assert param.type is not None
                t = llvm_type(param.type)
                formals.append(f"{t} {name}")
                self.f.do(f"store {t} {name}, ptr {self.slots[param.name][0]}")
                continue
            promises = ["noalias"] * noalias + ["readonly"] * (not param.written)
            formals.append(" ".join(["ptr", *promises, name]))
            extents = tuple(f"{name}.{axis}" for axis in range(param.type.ndim))
            formals += [f"i64 {extent}" for extent in extents]
            # An argument may start at any byte (NumPy views); private and constant arrays are ours, and aligned.
            align = 1 if param.type.space == "global" else param.type.dtype.itemsize
            self.arrays[param.name] = ArrayStorage(name, param.type.dtype, extents, align)
        return formals

    def _device_function(self, symbol: str, function: ir.IRFunction) -> None:
        self._begin_function(function)
        formals = self._formal_parameters(function, noalias=False)
        self._block(function.body)
        returned = result_type(function)
        self.f.close("ret void" if returned == "void" else f"ret {returned} zeroinitializer")
        header = f"define internal {returned} {function_symbol(symbol)}({', '.join(formals)}) nounwind inlinehint"
        self.module.functions.append(self.f.text(header))

    # -- statements

    def _statement(self, node: ir.IRStmt) -> None:
        match node:
            case ir.IRAssign():
                self._write(node.name, self._expr(node.value), self.shapes.is_blended(node, node.name))
            case ir.IRStore():
                self._store(node)
            case ir.IRExprStmt():
                self._evaluate(node.value)
            case ir.IRUnpack():
                self._unpack(node)
            case ir.IRIf():
                self._if(node)
            case ir.IRWhile():
                self._while(node)
            case ir.IRFor():
                self._for(node)
            case ir.IRBreak() | ir.IRContinue():
                self._jump(node)
            case IRLeave():
                self._leave(node)
            case ir.IRReturn():
                self._return(node)
            case ir.IRLocalArray():
                self._local_array(node)
            case ir.IRPrint():
                self._print(node)
            case ir.IRAssert():
                pass  # like `python -O`; checked mode is another variant
            case _:
                raise AssertionError(f"no lowering of {type(node).__name__}")

    def _evaluate(self, node: ir.IRExpr) -> None:
        """For its effect; a call may have no result, or several that nobody wants."""
        if isinstance(node, IRInlined):
            self._inlined(node)
        elif isinstance(node, ir.IRCall):
            self._call_function(node)
        else:
            self._expr(node)

    def _unpack(self, node: ir.IRUnpack) -> None:
        if isinstance(node.call, IRInlined):
            self._inlined(node.call)
            for name, result in zip(node.names, node.call.results, strict=True):
                self._write(name, self._read(result), self.shapes.is_blended(node, name))
            return
        assert node.call.symbol is not None
        function = self.kernel.functions[node.call.symbol]
        results = self._call_function(node.call)
        for position, (name, dtype) in enumerate(zip(node.names, function.results, strict=True)):
            if len(function.results) == 1:
                self._write(name, Value(results, dtype))
                return
            field = self.f.emit(f"extractvalue {result_type(function)} {results}, {position}")
            self._write(name, Value(field, dtype))

    def _return(self, node: ir.IRReturn) -> None:
        """From a device function: its results by value, several as a structure."""
        values = [self._expr(v) for v in node.values]
        texts = [f"{llvm_type(v.dtype)} {v.ssa}" for v in values]
        if len(texts) < 2:
            self.f.close(f"ret {texts[0]}" if texts else "ret void")
            return
        whole, result = result_type(self.function), "poison"
        for position, text in enumerate(texts):
            result = self.f.emit(f"insertvalue {whole} {result}, {text}, {position}")
        self.f.close(f"ret {whole} {result}")

    def _local_array(self, node: ir.IRLocalArray) -> None:
        if node.name in self.arrays:
            return  # one place, however often a pass has written the statement
        size = 1
        for extent in node.shape:
            size *= extent
        lanes = 1 if self.lane else self.width
        name = f"%l.{mangle(node.name)}" if self.width == 1 else None  # a block is written at two widths
        pointer = self.f.slot(f"[{size * lanes} x {llvm_type(node.element)}]", name, zero=False)
        extents = tuple(map(str, node.shape))
        self.arrays[node.name] = ArrayStorage(pointer, node.element, extents, node.element.itemsize, lanes)

    # -- printing

    def _print(self, node: ir.IRPrint) -> None:
        values = [self._expr(part) for part in node.parts if not isinstance(part, str)]
        parts = tuple(part if isinstance(part, str) else typed(part) for part in node.parts)
        buffer = self.f.slot(f"[{max(1, len(values))} x i64]", zero=False)
        for position, value in enumerate(values):
            place = self.f.emit(f"getelementptr i64, ptr {buffer}, i64 {position}")
            self.f.do(f"store i64 {self._to_word(value)}, ptr {place}")
        callee = self.module.declare("void", PRINT_SYMBOL, ["i64", "ptr"], "nounwind")
        self.f.do(f"call void {callee}(i64 {len(self.print_sites)}, ptr {buffer})")
        self.print_sites.append(PrintSite(parts))

    def _to_word(self, value: Value) -> str:
        """A number as one word of the argument block: bits of an i64 or u64, or of a binary64."""
        t, dtype = llvm_type(value.dtype), value.dtype
        if dtype.is_float:
            wide = value.ssa if t == "double" else self.f.emit(f"fpext float {value.ssa} to double")
            return self.f.emit(f"bitcast double {wide} to i64")
        if dtype.bits == 64:
            return value.ssa
        return self.f.emit(f"{'sext' if dtype.is_signed else 'zext'} {t} {value.ssa} to i64")
