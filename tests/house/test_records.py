"""Options travel as records: only a few kinds of functions take more than eight parameters."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "poisonproof"
MOST = 8
# What people call with keywords, as they call scikit-learn: a record would only be one more name to learn.
VERBS = {
    **{"verify": "verify", "audit": "audit", "make_plan": "plan", "compare": "compare"},
    "write_embeddings": "write_embeddings",
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


def test_a_long_function_is_seen():
    taken = ", ".join(f"a{i}" for i in range(MOST + 1))
    assert long_functions(f"def f({taken}): ...") == {"f": MOST + 1}
    assert long_functions(f"@njit(cache=True)\ndef f({taken}): ...") == {}


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by name: of two with one name it collects one only."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
