"""The public names: what they say of themselves to readers, editors and type checkers."""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import ArgumentError, MissingNameError, SpanError

VERBS = ["windowed", "rolling", "slide", "fold", "upsert", "drain", "explain"]
FUNCTIONS: dict[str, Any] = {
    name: value
    for name in sw.__all__
    if inspect.isroutine(value := getattr(sw, name)) or name == "Operator"
}
FUNCTIONS |= {f"agg.{name}": getattr(sw.agg, name) for name in sw.agg.__all__}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_a_list_of_its_parameters_and_an_example(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    assert re.search(r"^>>> ", text, re.MULTILINE), "there is no example"
    _, found, rest = text.partition("\nArgs:\n")
    assert found, "there is no list of parameters"
    listed = rest.partition(">>>")[0]
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    if "**query:" in listed:
        missing = [parameter for parameter in parameters if f"`{parameter}`" not in listed]
        assert missing == []
    else:
        assert re.findall(r"^    (\w+): ", listed, re.MULTILINE) == list(parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_names_what_it_takes(name: str) -> None:
    """No argument is refused by Python alone, which has no list of them."""
    called = name.removeprefix("agg.")
    message = rf"^`{called}` has no argument `nobody_knows`\..* It takes: "
    with pytest.raises(ArgumentError, match=message):
        FUNCTIONS[name](nobody_knows=1)


def test_help_begins_with_the_verbs() -> None:
    text = pydoc.plain(pydoc.render_doc(sw))
    places = [text.index(f"`{verb}`") for verb in VERBS]
    assert places == sorted(places)
    assert places[-1] < text.index("CLASSES")


def test_type_checkers_refuse_what_there_is_not() -> None:
    """They do as long as no `ignore` here is unused, which `mypy --strict` would tell."""
    with pytest.raises(MissingNameError):
        sw.nope()  # type: ignore[attr-defined]
    with pytest.raises(MissingNameError):
        sw.agg.nope("x")  # type: ignore[attr-defined]
    with pytest.raises(SpanError, match=r"takes a whole number; given: 3\.5"):
        sw.tumbling(3.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sw.windowed({}, tim="t")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        sw.windowed_by(tim="t")  # type: ignore[call-arg]
    made: sw.Operator = sw.Operator(windows=[sw.tumbling("5m")], aggs=[sw.agg.count()], time="t")
    assert made.time == "t"
