"""Statements and functions in LLVM: control flow, locals, local arrays, printing, device functions."""

from __future__ import annotations

from typing import Final

from tack.codegen.llvm_expressions import ExpressionEmitter, _typed, function_symbol, result_type
from tack.codegen.llvm_values import ArrayStorage, FunctionText, Value, literal, llvm_type, mangle
from tack.lang import ir
from tack.lang.records import record
from tack.lang.types import ArrayType, DType

PRINT_SYMBOL: Final = "tack_print"
"""``void tack_print(i64 site, ptr values)``: the runtime's side of `print`; values as words of the argument block."""


@record(frozen=True)
class PrintSite:
    """One `print` of the source: its literal texts, and the types of the values between them."""

    parts: tuple[str | DType, ...]


class StatementEmitter(ExpressionEmitter):
    """Walks statements. `loops` has the labels that `break` and `continue` go to, innermost last."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[tuple[str, str]] = []
        self.print_sites: list[PrintSite] = []
        self.function: ir.IRFunction

    # -- functions

    def _begin_function(self, function: ir.IRFunction) -> None:
        """A fresh function text, with a slot for each scalar symbol and a place for each table."""
        self.function, self.f, self.slots, self.arrays, self.loops = function, FunctionText(), {}, {}, []
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

    def _block(self, statements: list[ir.IRStmt]) -> None:
        """Statements in order; what follows a jump in the same block cannot run and is not written."""
        for statement in statements:
            if self.f.terminated:
                return
            self._statement(statement)

    def _statement(self, node: ir.IRStmt) -> None:
        match node:
            case ir.IRAssign():
                self._write(node.name, self._expr(node.value))
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
            case ir.IRBreak():
                self.f.br(self.loops[-1][0])
            case ir.IRContinue():
                self.f.br(self.loops[-1][1])
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
        if isinstance(node, ir.IRCall):
            self._call_function(node)
        else:
            self._expr(node)

    def _store(self, node: ir.IRStore) -> None:
        value = self._expr(node.value)
        storage, address = self.arrays[node.array], self._address(node.array, node.index)
        self.f.do(f"store {llvm_type(value.dtype)} {value.ssa}, ptr {address}, align {storage.align}")

    def _unpack(self, node: ir.IRUnpack) -> None:
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
        typed = [f"{llvm_type(v.dtype)} {v.ssa}" for v in values]
        if len(typed) < 2:
            self.f.close(f"ret {typed[0]}" if typed else "ret void")
            return
        whole, result = result_type(self.function), "poison"
        for position, text in enumerate(typed):
            result = self.f.emit(f"insertvalue {whole} {result}, {text}, {position}")
        self.f.close(f"ret {whole} {result}")

    def _local_array(self, node: ir.IRLocalArray) -> None:
        if node.name in self.arrays:
            return  # one place, however often a pass has written the statement
        size = 1
        for extent in node.shape:
            size *= extent
        pointer = self.f.slot(f"[{size} x {llvm_type(node.element)}]", f"%l.{mangle(node.name)}", zero=False)
        extents = tuple(map(str, node.shape))
        self.arrays[node.name] = ArrayStorage(pointer, node.element, extents, node.element.itemsize)

    # -- control flow

    def _if(self, node: ir.IRIf) -> None:
        then, join = self.f.label("then"), self.f.label("join")
        other = self.f.label("else") if node.other else join
        self.f.cond_br(self._condition(node.cond), then, other)
        for label, body in ((then, node.then), (other, node.other)):
            if body or label is then:
                self.f.open(label)
                self._block(body)
                self.f.br(join)
        self.f.open(join)

    def _while(self, node: ir.IRWhile) -> None:
        head, body, end = self.f.label("while"), self.f.label("body"), self.f.label("end")
        self.f.br(head)
        self.f.open(head)
        self.f.cond_br(self._condition(node.cond), body, end)
        self._loop_body(body, node.body, end, head)
        self.f.br(head)
        self.f.open(end)

    def _loop_body(self, label: str, body: list[ir.IRStmt], break_to: str, continue_to: str) -> None:
        self.f.open(label)
        self.loops.append((break_to, continue_to))
        self._block(body)
        self.loops.pop()

    def _for(self, node: ir.IRFor) -> None:
        """Counts iterations, not values: `start + k * step` for k below a trip count, so that no counter overflows."""
        start, stop, step = (self._expr(e).ssa for e in (node.start, node.stop, node.step))
        trips = self._trip_count(start, stop, step)
        head, latch, end = self.f.label("for"), self.f.label("next"), self.f.label("end")
        before, counter = self.f.block, self.f.name()
        self.f.cond_br(self.f.emit(f"icmp eq i64 {trips}, 0"), end, head)
        self.f.open(head)
        self.f.do(f"{counter} = phi i64 [ 0, %{before} ], [ {counter}.next, %{latch} ]")
        self._write(node.var, Value(self._affine(start, counter, step), self.slots[node.var][1]))
        body = self.f.label("body")
        self.f.br(body)
        self._loop_body(body, node.body, end, latch)
        self.f.br(latch)
        self.f.open(latch)
        self.f.do(f"{counter}.next = add nuw i64 {counter}, 1")
        self.f.cond_br(self.f.emit(f"icmp eq i64 {counter}.next, {trips}"), end, head)
        self.f.open(end)

    def _trip_count(self, start: str, stop: str, step: str) -> str:
        """How many values ``range(start, stop, step)`` has for a positive step; as u64 it is right for all of i64."""
        emit = self.f.emit
        some = emit(f"icmp slt i64 {start}, {stop}")
        span = emit(f"sub i64 {stop}, {start}")
        if step != "1":
            last = emit(f"sub i64 {span}, 1")
            span = emit(f"add i64 {emit(f'udiv i64 {last}, {step}')}, 1")
        return emit(f"select i1 {some}, i64 {span}, i64 0")

    def _affine(self, start: str, counter: str, step: str) -> str:
        """``start + counter * step``; literals that change nothing are left out."""
        product = counter if step == "1" else self.f.emit(f"mul i64 {counter}, {step}")
        return product if start == "0" else self.f.emit(f"add i64 {start}, {product}")

    # -- printing

    def _print(self, node: ir.IRPrint) -> None:
        values = [self._expr(part) for part in node.parts if not isinstance(part, str)]
        parts = tuple(part if isinstance(part, str) else _typed(part) for part in node.parts)
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
