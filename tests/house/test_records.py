"""Options travel as records, and a flag by its name: what True means stands where it is said."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "poisonproof"
MOST = 8
# What people call with keywords, as they call scikit-learn. Judged one by one: a record would help where the same
# options travel through several calls, and inside the house they do (`RunSettings`, `ReadOptions`, `EnsembleOptions`).
# These five are called once, in a notebook, with the one or two options that matter there; every option is a plain
# value with a default, is completed by an editor and stands in the docstring under its own name. A record would be
# one more name to import, and `help(verify)` would no longer say what can be asked of it. They stay, by keyword only.
VERBS = {
    "verify": "verify",  # a folder, and whatever of data, models and signatures the reader has at hand
    "audit": "audit",  # a model and its data; how many attacks, of which kinds, from which seed
    "make_plan": "plan",  # a data set, and what is fixed already
    "compare": "compare",  # a data set, and which learners, k and d to hold against each other
    "write_embeddings": "write_embeddings",  # samples, their vectors, and where they come from
}


def parameters(function: ast.FunctionDef) -> list[str]:
    taken = function.args
    return [
        each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs) if each.arg not in ("self", "cls")
    ]


def long_functions(source: str) -> dict[str, int]:
    """Functions of a file with more than `MOST` parameters, constructors and compiled kernels apart."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    plain = [f for f in functions if f.name != "__init__" and "njit" not in "".join(map(ast.dump, f.decorator_list))]
    return {f.name: len(parameters(f)) for f in plain if len(parameters(f)) > MOST}


def test_functions_take_a_record_instead_of_many_parameters():
    long = {
        name: count
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "cli"  # a command's parameters are its options; Typer reads them from its signature
        for name, count in long_functions(path.read_text("utf-8")).items()
    }
    assert set(long) <= set(VERBS), long


def test_what_people_call_with_keywords_takes_no_options_by_position():
    import inspect

    import poisonproof

    for name in VERBS.values():
        taken = inspect.signature(getattr(poisonproof, name)).parameters.values()
        by_place = [each for each in taken if each.kind is not each.KEYWORD_ONLY]
        assert len(by_place) <= 4, name
        assert not any(isinstance(each.default, bool) for each in by_place), name


# `setattr` by another name: whatever the attribute is to be is given by place.
SETS_ANYTHING = {"_attribute"}


def name_called(call: ast.Call) -> str | None:
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)


def is_flag(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def flags_by_place(sources: dict[str, str]) -> list[str]:
    """Calls of our own functions with True or False by place, and parameters that have such a default and a place.

    Compiled kernels take everything by place; Typer calls a command, with keywords.
    """
    trees = {name: ast.parse(source) for name, source in sources.items()}
    defined = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    kernels = {f.name for f in defined if "njit" in "".join(map(ast.dump, f.decorator_list))}
    ours = {node.name for tree in trees.values() for node in ast.walk(tree) if hasattr(node, "name")}
    seen = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name_called(node) in ours - kernels - SETS_ANYTHING:
                seen += [f"{name}:{node.lineno} {name_called(node)}" for each in node.args if is_flag(each)]
            is_command = name.startswith("cli/") and getattr(node, "name", "") in ("command", "_common")
            if isinstance(node, ast.FunctionDef) and node.name not in kernels and not is_command:
                by_place = [*node.args.posonlyargs, *node.args.args][::-1]
                pairs = zip(by_place, node.args.defaults[::-1], strict=False)
                seen += [f"{name}:{node.lineno} {node.name}({each.arg})" for each, default in pairs if is_flag(default)]
    return seen


def test_no_flag_is_given_by_place():
    sources = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    assert flags_by_place(sources) == []


def test_a_flag_by_place_is_seen():
    source = "def f(a, *, b=True): ...\nf(False)\nf(1, b=False)\nprint(True)\ndef g(a, b=True): ..."
    assert flags_by_place({"x.py": source}) == ["x.py:5 g(b)", "x.py:2 f"]
    assert flags_by_place({"x.py": "@njit\ndef f(a): ...\nf(True)"}) == []


def test_a_long_function_is_seen():
    taken = ", ".join(f"a{i}" for i in range(MOST + 1))
    assert long_functions(f"def f({taken}): ...") == {"f": MOST + 1}
    assert long_functions(f"@njit(cache=True)\ndef f({taken}): ...") == {}


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by name: of two with one name it collects one only."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
