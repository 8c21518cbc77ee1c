"""What commands print as JSON follows the schemas that come with the package.

`poisonproof` of the helpers checks the output of every command that any test asks for JSON; here is what that rests on.
"""

import json
from importlib.resources import files

import pytest
from jsonschema import ValidationError

from command_line import COMMANDS, check_json, poisonproof, schema_of

SCHEMAS = files("poisonproof.cli") / "schemas"
NAMES = sorted(path.name.removesuffix(".json") for path in SCHEMAS.iterdir())


def takes_json(command):
    return any("--json" in getattr(parameter, "opts", ()) for parameter in command.params)


def test_every_command_that_takes_json_has_a_schema():
    assert sorted(name for name, command in COMMANDS.items() if takes_json(command)) == NAMES


def parts_of(schema):
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from parts_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from parts_of(part)


@pytest.mark.parametrize("name", NAMES)
def test_a_certified_fraction_is_never_alone(name):
    schema = schema_of(name).schema
    for whole in schema.get("anyOf", [schema]):
        for part in parts_of(whole):
            properties = part.get("properties", {})
            if "certified_fraction" in properties and "test_samples" not in properties:  # a class has no majority
                beside = part["dependentRequired"]["certified_fraction"]
                assert "certified_fraction_balanced" in beside
                at_hand = {*beside, *part["required"], *whole.get("required", ())}
                assert {"majority_share", "balanced_accuracy"} <= at_hand


@pytest.fixture(scope="module")
def run_json(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    poisonproof("example", "table", folder)
    words = ("--k", 5, "--no-undefended", "--n-jobs", 1, "--votes-only", "--out", folder / "run", "--json")
    done = poisonproof("run", folder / "tumours.csv", "--label", "diagnosis", *words)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "gone", ["majority_share", "balanced_accuracy", "certified_fraction_balanced", "premises", "warning", "k"]
)
def test_what_is_missing_is_refused(run_json, gone):
    check_json("run", json.dumps(run_json))
    record = {name: value for name, value in run_json.items() if name != gone}
    with pytest.raises(ValidationError, match=gone if gone != "k" else "required|valid"):
        check_json("run", json.dumps(record))


@pytest.mark.parametrize(
    ("name", "value"), [("clean_accuracy", 95.5), ("attack_size", [-1]), ("by_class", {}), ("premises", [1])]
)
def test_what_has_another_type_or_range_is_refused(run_json, name, value):
    with pytest.raises(ValidationError):
        check_json("run", json.dumps({**run_json, name: value}))


def test_an_error_is_one_sentence_and_no_json(tmp_path):
    done = poisonproof("run", tmp_path / "nothing.csv", "--label", "y", "--json", code=2)
    assert done.stdout == ""
    assert "nothing.csv" in done.stderr
