"""What a step takes and gives: its axes and parameters, as the compiler says them; touches no
device."""

from __future__ import annotations

import ctypes as C
import math
import os
import struct
from typing import Any, Mapping

from ._api import (
    BYTES,
    FORMATS,
    IMAGE_VERSION,
    OK,
    OUT,
    TYPES,
    CompileOptions,
    ExplainOptions,
    Image,
    LockstepError,
    REPORTS,
    fail,
    library,
    version,
)


class Parameter:
    """One parameter of a step. `tensors` is the axis that counts the tensors of a list, or None."""

    def __init__(self, row: Any, axes: list[Axis]) -> None:
        self.key: bytes = row.name
        self.name: str = row.name.decode()
        self.role: int = row.role
        self.type: int = row.type
        self.rank: int = row.rank
        self.axes = [axes[row.axes[i]] for i in range(row.rank)]
        self.tensors: Axis | None = next(
            (a.tensors for a in self.axes if a.tensors is not None), None
        )
        self.inner = [a for a in self.axes if a is not self.tensors]
        self.fills = row.rank == 1 and row.role != OUT and self.axes[0].counts
        self.number = self.rank == 0 or self.fills  # a number will do
        self.default: Any = _number(row.initial, row.type) if row.has_default else None

    def declaration(self, role: int | None = None) -> str:
        """As a .step file declares it, without its default."""
        axes = f"[{', '.join(a.name for a in self.axes)}]" if self.rank else ""
        word = ("", "inout ", "out ")[self.role if role is None else role]
        return f"{word}{self.name}: {TYPES[self.type]}{axes}"


class Axis:
    """`tensors` is the axis that counts the tensors whose length this is, or None."""

    def __init__(self, row: Any) -> None:
        self.name: str = row.name.decode()
        self.fixed: int = row.fixed
        self.length: int = row.length
        self.parent: int = row.parent - 1
        self.whole: int = row.whole - 1
        self.terms: list[tuple[int, int]] = [
            (row.terms[i].operation, row.terms[i].value) for i in range(row.term_count)
        ]
        self.tensors: Axis | None = None
        self.counts, self.rest = False, False


class Signature:
    """What ls_image says of a step's axes and parameters."""

    def __init__(self, image: Any) -> None:
        self.step: str = image.step.decode()
        self.math: str = image.math.decode()
        self.draws = bool(image.draws)
        self.axes = axes = [Axis(image.axes[i]) for i in range(image.axis_count)]
        for axis in axes:
            root = axis
            while root.parent >= 0:
                root = axes[root.parent]
            if root is not axis and root.whole < 0:
                axis.tensors, root.counts = root, True
            parent = axes[axis.parent] if axis.parent >= 0 else None
            axis.rest = axis.whole >= 0 and parent is not None and parent.whole == axis.whole
        self.parameters = [
            Parameter(image.parameters[i], axes) for i in range(image.parameter_count)
        ]
        self.by_name = {p.name: p for p in self.parameters}

    def grade(self) -> str:
        """Of its functions, as it stands ahead of a step's brace."""
        return "" if self.math == "exact" else f" math {self.math}"

    def header(self) -> str:
        """The axes as a .step file declares them."""
        parts = []
        for axis in self.axes:
            if axis.whole >= 0:
                continue
            text = axis.name + (f" of {self.axes[axis.parent].name}" if axis.parent >= 0 else "")
            pieces = [a for a in self.axes if a.whole >= 0 and self.axes[a.whole] is axis]
            if pieces:
                text += f" as ({pieces[0].name}, {pieces[1].name} = {axis.length})"
            if axis.terms:
                text += f" = {self._expression(axis)}"
            elif axis.fixed >= 0:
                text += f" = {axis.fixed}"
            parts.append(text)
        return ", ".join(parts)

    def _expression(self, axis: Axis) -> str:
        stack: list[str] = []
        for operation, value in axis.terms:
            if operation < 2:
                stack.append(str(value) if operation == 0 else self.axes[value].name)
            else:
                b, a = stack.pop(), stack.pop()
                stack.append(f"({a} {('+', '-', '*', '//', '%')[operation - 2]} {b})")
        return stack[0]

    def solve(self, known: dict[Axis, Any]) -> dict[Axis, Any]:
        """Adds the lengths that follow from those in `known`, by axis; of `w = 2 * h` either from
        the other."""
        for axis in self.axes:
            if axis in known and axis.terms:
                self._solve_for(axis, known)
        for axis in self.axes:
            if axis in known:
                continue
            if axis.rest:
                known[axis] = axis.length
            elif axis.whole >= 0 and self.axes[axis.whole] in known:
                known[axis] = -(-known[self.axes[axis.whole]] // axis.length)
            elif axis.terms and all(o != 1 or self.axes[v] in known for o, v in axis.terms):
                known[axis] = self._evaluate(axis, known)
            elif axis.fixed >= 0:
                known[axis] = axis.fixed
        return known

    def _evaluate(self, axis: Axis, known: dict[Axis, Any]) -> Any:
        """What its expression comes to."""
        names = {a.name: n for a, n in known.items()}
        return eval(self._expression(axis), {"__builtins__": {}}, names)  # names and integers

    def _solve_for(self, axis: Axis, known: dict[Axis, Any]) -> None:
        """The one length that an axis's expression lacks, where that is linear in it; whether it
        fits is seen when arrays are bound."""
        lacking = {self.axes[v] for o, v in axis.terms if o == 1} - known.keys()
        if len(lacking) != 1:
            return
        unknown = lacking.pop()
        try:
            none, one = (self._evaluate(axis, {**known, unknown: n}) for n in (0, 1))
            if one != none:
                known[unknown] = (known[axis] - none) // (one - none)
        except ZeroDivisionError:
            pass


def _number(bits: int, type: int) -> Any:
    """The default that an image holds as bits, as the shortest decimal that gives it."""
    data = struct.pack("<Q", bits)[: BYTES[type]]
    value = struct.unpack("<" + FORMATS[TYPES[type]], data)[0]
    if TYPES[type] != "f32" or not math.isfinite(value):
        return value
    return next(
        v
        for v in (float(f"{value:.{digits}g}") for digits in range(6, 18))
        if struct.pack("<f", v) == data
    )


class Source:
    """A step of a file, or of a text, with what overrides its constants: compiled, but on no
    device."""

    name: str
    signature: Signature

    def __init__(
        self,
        file_or_text: str | os.PathLike[str],
        name: str | None = None,
        constants: Mapping[str, Any] | None = None,
        path: str = "step.text",
    ) -> None:
        file_or_text = os.fspath(file_or_text)
        self.text = file_or_text if "{" in file_or_text or "\n" in file_or_text else None
        self.file = (
            path if self.text is not None else file_or_text
        )  # of a text: where imports begin
        if self.text is None and name is None and not os.path.exists(self.file):
            self.file, _, after = self.file.partition(":")
            name = after or None

        def literal(value: Any) -> str:
            return str(value).lower() if isinstance(value, bool) else repr(value)

        self.defines = tuple(f"{key}={literal(value)}" for key, value in (constants or {}).items())
        self.made: dict[Any, Any] = {}
        api, compilation = library(), self.compiled()
        try:
            self._choose(api, compilation, name)
        finally:
            api.ls_compilation_destroy(compilation)

    def compiled(self) -> C.c_void_p:
        """A compilation, which the caller destroys."""
        api, compilation = library(), C.c_void_p()
        options, data = self.options(), (self.text or "").encode()
        if self.text is None:
            status = api.ls_compile_file(self.file.encode(), C.byref(options), C.byref(compilation))
        else:
            status = api.ls_compile_text(
                self.file.encode(), data, len(data), C.byref(options), C.byref(compilation)
            )
        if status != OK:
            try:
                fail(
                    status,
                    api.ls_compilation_message(compilation) if compilation else b"out of memory",
                )
            finally:
                api.ls_compilation_destroy(compilation)
        return compilation

    def _choose(self, api: C.CDLL, compilation: C.c_void_p, name: str | None) -> None:
        names = step_names(api, compilation)
        own = names[: api.ls_compilation_own_step_count(compilation)] or names
        if name is None and len(own) == 1:
            name = own[0]
        if name not in names:
            what = "name one of the steps" if name is None else f"there is no step `{name}`"
            raise LockstepError(f"{self.file}: {what}: {', '.join(own) or 'it has none'}")
        self.name = name
        image = C.POINTER(Image)()
        status = api.ls_compilation_image(compilation, names.index(name), b"cpu", C.byref(image))
        if status != OK:
            fail(status, api.ls_compilation_message(compilation))
        if image.contents.version != IMAGE_VERSION:
            raise LockstepError(
                f"liblockstep.so {version()} has images of format {image.contents.version}, "
                f"this package reads {IMAGE_VERSION}: take the one that came with the library"
            )
        self.signature = Signature(image.contents)

    def explain(self, sizes: Mapping[str, int | str], report: str = "TEXT") -> str:
        """What `lockstep explain --plan` prints for the step with these lengths by axis; the report
        is TEXT, JSON or DOT."""
        api, compilation, text = library(), self.compiled(), C.c_char_p()
        try:
            rows = [f"{name}={length}".encode() for name, length in sizes.items()]
            options = ExplainOptions(
                report=REPORTS.index(report),
                sizes=(C.c_char_p * len(rows))(*rows),
                size_count=len(rows),
                plan_only=1,
            )
            number = step_names(api, compilation).index(self.name)
            status = api.ls_compilation_explain(
                compilation, number, C.byref(options), C.byref(text)
            )
            if status != OK:
                fail(status, api.ls_compilation_message(compilation))
            return (text.value or b"").decode()
        finally:
            api.ls_compilation_destroy(compilation)

    def ir(self) -> str:
        """The step as `lockstep emit --target ir` prints it."""
        api, compilation = library(), self.compiled()
        data, size = C.c_void_p(), C.c_size_t()
        try:
            number = step_names(api, compilation).index(self.name)
            status = api.ls_compilation_emit(
                compilation, number, b"ir", C.byref(data), C.byref(size)
            )
            if status != OK:
                fail(status, api.ls_compilation_message(compilation))
            return C.string_at(data, size.value).decode()
        finally:
            api.ls_compilation_destroy(compilation)

    def around(self) -> str:
        """The text ahead of another step that calls this one."""
        text = self.text
        if text is None and os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as file:
                text = file.read()  # and not imported, so that its constants can be overridden
        return f'import "{self.file}"\n' if text is None else text + "\n"

    def options(self) -> CompileOptions:
        if not self.defines:
            return CompileOptions()
        lines = (C.c_char_p * len(self.defines))(*(line.encode() for line in self.defines))
        return CompileOptions(defines=lines, define_count=len(self.defines))

    def programs(self, context: Any) -> tuple[dict[Any, Any], Any]:
        """Where the program made of it on a context is kept: files may change, the library does
        not."""
        if self.text is None and self.file.startswith("std/"):
            return context.programs, (self.file, self.defines)
        return self.made, context


def step_names(api: C.CDLL, compilation: C.c_void_p) -> list[str]:
    count = api.ls_compilation_step_count(compilation)
    return [api.ls_compilation_step_name(compilation, i).decode() for i in range(count)]
