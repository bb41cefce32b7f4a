"""From methods of an object to the functions of a module that Numba can compile and cache.

`self` disappears: its attributes become constants, its methods functions. What the methods use
from their surroundings is imported or written out again.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from slicewise.codegen import prelude
from slicewise.codegen.kernel import bare_function, binding

# Whole numbers that do not fit 64 bits are an error where these stand for operators.
CHECKED = {ast.Add: "added", ast.Sub: "subtracted", ast.Mult: "multiplied"}
IMPORT_CHECKED = f"from slicewise.codegen.checked import {', '.join(CHECKED.values())}"

RESERVED = prelude.NAMES | {
    *("algebra", "inner", "jit", "kernel", "named_tuple", "lift_value", "scalars"),
    *CHECKED.values(),
}


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

    With `checked` whole numbers that do not fit are an error; the module then needs
    `IMPORT_CHECKED`.
    """

    def __init__(self, owner: Any, *, checked: bool = False) -> None:
        self.owner, self.checked = owner, checked
        self.surroundings: dict[str, str] = {}
        self.functions: dict[str, str] = {}

    def write(self, methods: Sequence[str]) -> tuple[str, str]:
        """The source of `methods`, each under the name `own_<method>`.

        Also the name of the class of its states, if they are named tuples.
        """
        constructor = ""
        state = self.owner.identity() if hasattr(self.owner, "identity") else None
        if hasattr(type(state), "_fields"):
            constructor = type(state).__name__
            self._named_tuple(constructor, type(state))
        for method in methods:
            self._method(method, f"own_{method}")
        return "\n\n".join([*self.surroundings.values(), *self.functions.values()]), constructor

    def _method(self, method: str, name: str) -> None:
        bound = getattr(self.owner, method)
        function = bound.__func__ if isinstance(bound, MethodType) else bound
        if not isinstance(function, FunctionType):
            raise NotCompilableError(f"`{method}` is not a plain method")
        static = not isinstance(bound, MethodType)
        self._function(function, name, drop_self=not static)

    def _function(self, function: FunctionType, name: str, *, drop_self: bool) -> None:
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
        if any(not _is_static(d) for d in tree.decorator_list):
            raise NotCompilableError(f"`{function.__qualname__}` is decorated")
        bare_function(tree)
        tree.name = name
        if drop_self:
            receiver = tree.args.args.pop(0).arg
            tree = self._without_self(tree, receiver)
        self._surround(function, tree)
        if self.checked:
            tree = Checks().visit(tree)
        tree.decorator_list = [ast.Name("algebra", ast.Load())]
        del self.functions[name]
        self.functions[name] = ast.unparse(ast.fix_missing_locations(tree))

    def _without_self(self, tree: ast.FunctionDef, receiver: str) -> ast.FunctionDef:
        writer = self

        class Constants(ast.NodeTransformer):
            def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
                if isinstance(node.value, ast.Name) and node.value.id == receiver:
                    return ast.copy_location(
                        ast.Name(writer._attribute(node.attr), ast.Load()), node
                    )
                return self.generic_visit(node)

            def visit_Name(self, node: ast.Name) -> ast.AST:
                if node.id in (receiver, "super"):
                    raise NotCompilableError(f"`{node.id}` is used other than to read an attribute")
                return node

        result: ast.FunctionDef = Constants().visit(tree)
        return result

    def _attribute(self, attribute: str) -> str:
        """The name under which an attribute of `self` is known to the module."""
        name = f"self_{attribute}"
        value = getattr(self.owner, attribute)
        if isinstance(value, MethodType | FunctionType):
            self._method(attribute, name)
        else:
            self._bind(name, value)
        return name

    def _bind(self, name: str, value: Any) -> None:
        try:
            self.surroundings[name] = binding(name, value)
        except LookupError as error:
            raise NotCompilableError(str(error)) from error

    def _named_tuple(self, name: str, cls: type) -> None:
        given = ", ".join(map(repr, (name, *cls._fields)))  # type: ignore[attr-defined]
        self.surroundings[name] = (
            f"from slicewise.codegen.jit import named_tuple\n{name} = named_tuple({given})"
        )

    def _surround(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        """Give the module what `function` uses from its own surroundings."""
        closure = inspect.getclosurevars(function)
        known = {**closure.globals, **closure.nonlocals}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Name) or node.id not in known:
                continue
            name, value = node.id, known[node.id]
            if name in RESERVED:
                raise NotCompilableError(f"`{name}` is a name that generated code needs itself")
            if isinstance(value, type) and hasattr(value, "_fields"):
                self._named_tuple(name, value)
            elif isinstance(value, FunctionType) and not hasattr(builtins, name):
                self._function(value, name, drop_self=False)
            else:
                self._bind(name, value)


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
