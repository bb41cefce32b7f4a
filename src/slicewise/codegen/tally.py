"""Kernels that count their combines.

The count is a local variable, which a loop keeps in a register, and is added to the cursors when
the kernel returns. Counting in the cursors themselves took twice the time of `recalc` on maxima.
"""

import ast
from functools import cache

from slicewise.codegen.kernel import Kernel, bare_function

COUNTED = {"combine", "prepend", "invert"}


@cache
def tallied(item: Kernel) -> Kernel:
    """Return the kernel that adds its calls of `combine` and `invert` to the last of its cursors.

    The cursors are its argument `p`. The kernels that it calls do so too, but for those that it
    leaves open. A kernel that has nothing to count is returned as it is, and so compiled once.
    """
    space = dict(item.function.__globals__)
    called = {name: space[name] for name in item.names() if isinstance(space.get(name), Kernel)}
    counting = {name: tallied(value) for name, value in called.items()}
    if not item.names() & COUNTED and counting == called:
        return item
    space |= counting
    tree = _counting(item)
    exec(compile(ast.Module([tree], []), item.function.__code__.co_filename, "exec"), space)
    return Kernel(space[item.__name__], ast.unparse(tree))


def _counting(item: Kernel) -> ast.FunctionDef:
    """The tree of a kernel that counts, with the lines of its source for tracebacks."""
    tree, code = item.tree(), item.function.__code__
    bare_function(tree)
    tree.decorator_list = []
    if item.names() & COUNTED:
        assert "p" in code.co_varnames and "tally" not in code.co_varnames
        end = [] if isinstance(tree.body[-1], ast.Return) else _lines(tree, "p[-1] += tally")
        tree.body = [*_lines(tree, "tally = 0"), *_counted(tree.body), *end]
    ast.increment_lineno(tree, code.co_firstlineno - 1)
    return tree


def _counted(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements, before each of which its calls are counted."""
    made: list[ast.stmt] = []
    for statement in body:
        if calls := _calls(statement):
            made += _lines(statement, f"tally += {calls}")
        if isinstance(statement, ast.Return):
            made += _lines(statement, "p[-1] += tally")
        if isinstance(statement, ast.If | ast.For | ast.While):
            statement.body, statement.orelse = map(_counted, (statement.body, statement.orelse))
        made.append(statement)
    return made


def _calls(statement: ast.stmt) -> int:
    """How many calls a statement makes, without those of the statements inside it."""
    parts = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.expr)]
    nodes = [node for part in parts for node in ast.walk(part)]
    calls = sum(isinstance(node, ast.Name) and node.id in COUNTED for node in nodes)
    # Numba fails on counts within an expression (`:=`), so each call has to be made for certain.
    uncertain = isinstance(statement, ast.While) or any(
        isinstance(node, ast.BoolOp | ast.IfExp) for node in nodes
    )
    assert not (calls and uncertain), f"use statements to say when: {ast.unparse(statement)}"
    return calls


def _lines(place: ast.AST, source: str) -> list[ast.stmt]:
    """The statements of `source`, as if they stood at `place`."""
    made = ast.parse(source)
    for node in ast.walk(made):
        ast.copy_location(node, place)
    return made.body
