"""From methods of an object to the functions of a module that Numba can compile and cache.

`self` disappears: its attributes become constants, its methods functions. What the methods use
from their surroundings is written out again.
"""

import ast
import builtins
import inspect
import math
import sys
import textwrap
from collections.abc import Sequence
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import Any

import numpy as np

from slicewise.codegen import prelude
from slicewise.codegen.kernel import bare_function, binding

# Whole numbers that do not fit 64 bits are an error where these stand for operators.
CHECKED = {ast.Add: "added", ast.Sub: "subtracted", ast.Mult: "multiplied"}
IMPORT_CHECKED = f"from slicewise.codegen.checked import {', '.join(CHECKED.values())}"

RESERVED = prelude.NAMES | {
    *("algebra", "own", "inner", "jit", "kernel", "named_tuple", "lift_value", "scalars"),
    *CHECKED.values(),
}

# Packages whose functions and constants stay as they are while machine code made from them is kept.
UNCHANGING = sys.stdlib_module_names | {"numpy", "numba"}

# Options of Numba that do not change what a function called by compiled code does.
OF_NO_ACCOUNT = {"nopython", "cache", "nogil"}


class NotCompilableError(Exception):
    """Why something cannot be compiled, in words for its author."""


def casts(dtypes: tuple[str, ...], constructor: str, methods: Sequence[str]) -> str:
    """Wrappers that give every state the same type, whatever mix of int and float it came as."""
    scalar = len(dtypes) == 1 and not constructor
    if scalar:
        cast = f"{_cast(dtypes[0])}(s)"
    else:
        parts = [f"{_cast(d)}(s[{k}])" for k, d in enumerate(dtypes)]
        cast = f"{constructor}({', '.join(parts)},)"
    # numpy's names, because `int` would leave a uint64 as it is, and one that meets an int64
    # becomes a float.
    text = "\n\nimport numpy as scalars\n"
    parameters = {
        "identity": "",
        "lift": "*values",
        "combine": "older, newer",
        "prepend": "older, newer",
        "invert": "total, oldest",
    }
    for method in methods:
        if method in parameters:
            names = parameters[method]
            text += (
                f"\n\n@algebra\ndef {'lift_value' if method == 'lift' else method}({names}):\n"
                f"    s = own_{method}({names})\n    return {cast}\n"
            )
    return text


def _cast(dtype: str) -> str:
    name = np.dtype(dtype).name
    return f"scalars.{'bool_' if name == 'bool' else name}"


class Writer:
    """Writes methods of `owner` as the functions of a module.

    What they use and what may change is written out too: constants by their values, functions by
    their source, those compiled by Numba with their own options. Only what comes with Python, numpy
    or Numba is imported. So the text says everything that the machine code does, and who changes a
    constant or a helper gets other machine code.

    With `checked` the methods are a user's: whole numbers that do not fit are an error, and so is
    an index out of bounds. The module then needs `IMPORT_CHECKED` and the decorator `own`.
    """

    def __init__(self, owner: Any, *, checked: bool = False) -> None:
        self.owner, self.checked = owner, checked
        self.surroundings: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.taken: dict[str, Any] = {"np": np}  # names of the module, and what they stand for

    def write(self, methods: Sequence[str]) -> tuple[str, str]:
        """The source of `methods`, each under the name `own_<method>`.

        Also the name of the class of its states, if they are named tuples.
        """
        constructor = ""
        for method in methods:
            self.taken[f"own_{method}"] = getattr(self.owner, method)
        state = self.owner.identity() if hasattr(self.owner, "identity") else None
        if hasattr(type(state), "_fields"):
            constructor = self._take(type(state).__name__, type(state))
        for method in methods:
            self._method(method, f"own_{method}")
        return "\n\n".join([*self.surroundings.values(), *self.functions.values()]), constructor

    def _method(self, method: str, name: str) -> None:
        bound = getattr(self.owner, method)
        if is_compiled(bound):
            self._compiled(bound, name)
            return
        function = bound.__func__ if isinstance(bound, MethodType) else bound
        if not isinstance(function, FunctionType):
            raise NotCompilableError(f"`{method}` is not a plain method")
        static = not isinstance(bound, MethodType)
        decorator = "own" if self.checked else "algebra"
        self._function(function, name, decorator, checked=self.checked, drop_self=not static)

    def _function(
        self,
        function: FunctionType,
        name: str,
        decorator: str,
        *,
        checked: bool,
        drop_self: bool = False,
        decorators: int = 0,
    ) -> None:
        """Write a function under another name and decorator, with all that it uses.

        Its source may have so many `decorators` of its own, which are left out.
        """
        if name in self.functions:
            return
        self.functions[name] = ""  # breaks recursion; the order of definitions is kept below
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, SyntaxError, IndentationError) as error:
            raise NotCompilableError(
                f"the source of `{function.__qualname__}` is not available"
            ) from error
        if not isinstance(tree, ast.FunctionDef):
            raise NotCompilableError(f"`{function.__qualname__}` is not a plain function")
        if sum(not _is_static(d) for d in tree.decorator_list) > decorators:
            raise NotCompilableError(f"`{function.__qualname__}` is decorated")
        bare_function(tree)
        tree.decorator_list = []
        self._defaults(function, tree, name)
        receiver = tree.args.args.pop(0).arg if drop_self else None
        tree = Surroundings(self, _globals_of(function), receiver).visit(tree)
        tree.name = name
        if checked:
            tree = Checks().visit(tree)
        tree.decorator_list = [ast.parse(decorator, mode="eval").body]
        del self.functions[name]
        self.functions[name] = ast.unparse(ast.fix_missing_locations(tree))

    def _defaults(self, function: FunctionType, tree: ast.FunctionDef, name: str) -> None:
        """Give parameters the defaults that they have, whatever these were made from."""
        for k, value in enumerate(function.__defaults__ or ()):
            place = self._take(f"{name}_default_{k}", value)
            tree.args.defaults[k] = ast.Name(place, ast.Load())
        named = function.__kwdefaults__ or {}
        for k, argument in enumerate(tree.args.kwonlyargs):
            if argument.arg in named:
                place = self._take(f"{name}_default_{argument.arg}", named[argument.arg])
                tree.args.kw_defaults[k] = ast.Name(place, ast.Load())

    def _compiled(self, dispatcher: Any, name: str) -> None:
        """Write a function that its author compiles with Numba, with its own options."""
        given = {k: v for k, v in dispatcher.targetoptions.items() if k not in OF_NO_ACCOUNT}
        if given.get("boundscheck") is None:
            given["boundscheck"] = True
        options = {"error_model": "python", "_nrt": True, **given}
        for option, value in options.items():
            if not isinstance(value, bool | int | str | None):
                raise NotCompilableError(f"`{name}` is compiled with `{option}={value!r}`")
        shown = ", ".join(f"{option}={value!r}" for option, value in sorted(options.items()))
        self._function(dispatcher.py_func, name, f"inner({shown})", checked=False, decorators=1)

    def attribute(self, attribute: str) -> str:
        """The name under which an attribute of `self` is known to the module."""
        name = f"self_{attribute}"
        value = getattr(self.owner, attribute)
        if isinstance(value, MethodType):
            if value.__self__ is not self.owner:
                raise NotCompilableError(f"`{attribute}` is a method of another object")
            self.taken.setdefault(name, value)
            self._method(attribute, name)
            return name
        return self._take(name, value)

    def surrounding(self, names: Sequence[str], value: Any) -> tuple[str, Sequence[str]]:
        """The name of what `names`, joined by dots, stand for, and those of them that are left.

        `value` is what the first one stands for. Modules that may change are looked into.
        """
        name, rest = names[0], list(names[1:])
        while rest and isinstance(value, ModuleType) and not comes_along(value):
            attribute = rest.pop(0)
            if not hasattr(value, attribute):
                raise NotCompilableError(f"`{name}` has no `{attribute}`")
            value, name = getattr(value, attribute), f"{name}_{attribute}"
        return self._take(name, value), rest

    def _take(self, wanted: str, value: Any) -> str:
        """Make `value` known to the module; its name there, `wanted` or one like it."""
        name, count = wanted, 0
        while (
            name in RESERVED
            or hasattr(builtins, name)
            or (name in self.taken and not _is_same(self.taken[name], value))
        ):
            count += 1
            name = f"{wanted}_{count}"
        self.taken[name] = value
        if isinstance(value, type) and hasattr(value, "_fields"):
            given = ", ".join(map(repr, (value.__name__, *value._fields)))
            self.surroundings[name] = (
                f"from slicewise.codegen.named import named_tuple\n{name} = named_tuple({given})"
            )
        elif is_compiled(value):
            self._compiled(value, name)
        elif isinstance(value, FunctionType):
            decorator = "own" if self.checked else "algebra"
            self._function(value, name, decorator, checked=self.checked)
        elif (written := literal(value)) is not None:
            self.surroundings[name] = f"{name} = {written}"
        elif comes_along(value):
            try:
                self.surroundings[name] = binding(name, value)
            except LookupError as error:
                raise NotCompilableError(str(error)) from error
        else:
            raise NotCompilableError(
                f"`{wanted}` is a {type(value).__name__}, which generated code cannot name"
            )
        return name


class Surroundings(ast.NodeTransformer):
    """Names of a generated module in place of those that a function uses from where it stands."""

    def __init__(self, writer: Writer, known: dict[str, Any], receiver: str | None) -> None:
        self.writer, self.known, self.receiver = writer, known, receiver

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        names = _dotted(node)
        if names is not None and names[0] == self.receiver:
            value = getattr(self.writer.owner, names[1])
            rest: Sequence[str] = names[2:]
            if isinstance(value, ModuleType):
                place, rest = self.writer.surrounding([f"self_{names[1]}", *rest], value)
            else:
                place = self.writer.attribute(names[1])
        elif names is not None and names[0] in self.known:
            place, rest = self.writer.surrounding(names, self.known[names[0]])
        else:
            return self.generic_visit(node)
        made: ast.expr = ast.Name(place, ast.Load())
        for attribute in rest:
            made = ast.Attribute(made, attribute, ast.Load())
        return ast.copy_location(made, node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self.receiver is not None and node.id in (self.receiver, "super"):
            raise NotCompilableError(f"`{node.id}` is used other than to read an attribute")
        if node.id not in self.known:
            return node
        place, _ = self.writer.surrounding([node.id], self.known[node.id])
        return ast.copy_location(ast.Name(place, node.ctx), node)


def _dotted(node: ast.Attribute) -> list[str] | None:
    """The names of `a.b.c`; `None` if it begins with something else than a name."""
    names = []
    item: ast.expr = node
    while isinstance(item, ast.Attribute):
        names.append(item.attr)
        item = item.value
    return [item.id, *reversed(names)] if isinstance(item, ast.Name) else None


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the values of the names that a function uses and that are not its own."""
    closure = inspect.getclosurevars(function)
    own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    found = {**closure.globals, **closure.nonlocals}
    return {name: value for name, value in found.items() if name not in own}


def _is_same(one: Any, other: Any) -> bool:
    """Return whether a name that stands for one thing may stand for the other."""
    if one is other or (isinstance(one, MethodType) and one == other):
        return True
    written = literal(one)
    return written is not None and written == literal(other)


def is_compiled(value: Any) -> bool:
    """Return whether `value` is a function that Numba compiles."""
    return hasattr(value, "py_func") and hasattr(value, "targetoptions")


def comes_along(value: Any) -> bool:
    """Return whether a module, function or class is of Python, numpy or Numba: it stays as is."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in UNCHANGING


def literal(value: Any) -> str | None:
    """A plain constant as source; `None` for everything else."""
    if isinstance(value, np.float64 | np.int64 | np.bool_):
        value = value.item()
    if type(value) in (bool, int, str, NoneType):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if type(value) is tuple:
        parts = [literal(part) for part in value]
        if None not in parts:
            return f"({', '.join(map(str, parts))}{',' * (len(parts) == 1)})"
    return None


class Checks(ast.NodeTransformer):
    """Calls in place of the operators of `CHECKED`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        constant = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
        if constant or type(node.op) not in CHECKED:
            return node
        return self._call(node.op, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name) or type(node.op) not in CHECKED:
            return node
        before = ast.Name(node.target.id, ast.Load())
        return ast.Assign([node.target], self._call(node.op, before, node.value))

    def _call(self, op: ast.operator, left: ast.expr, right: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(CHECKED[type(op)], ast.Load()), [left, right], [])


def _is_static(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "override")
