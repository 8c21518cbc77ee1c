"""The same option has one name and one meaning in all commands, and the records made of options lose nothing."""

import inspect
import json
from collections import defaultdict

import pytest

from command_line import COMMANDS
from poisonproof.cli import options
from poisonproof.data.options import ReadOptions
from poisonproof.errors import PoisonproofError
from refused import refused

# What is written, drawn or listed differs from command to command by nature; these say for themselves what it is.
OF_ONE_COMMAND = {
    "--out": set(COMMANDS),
    "--seed": set(COMMANDS),
    "--method": {"audit", "run"},  # fewer methods; who votes
    "--k": {"plan"},  # several
    "--d": {"plan"},
    "--attack-size": {"plan", "run", "gate", "predict"},  # one: to plan for, to show, of each condition or answer
    "--target": {"predict"},  # in a column of its own
    "--split": {"certify"},  # said of votes that were made elsewhere
    "--votes-only": {"plan"},
    "--votes": {"verify"},  # a file; elsewhere, whether to keep them
    "--columns": {"plan"},  # how many; `predict` passes them through
    "--max-size": {"verify"},  # of a stranger's files in all
    "--undefended": {"update"},  # the same models, of the changed data; and what becomes of the figures without them
    "--no-undefended": {"update"},
    "--learner": {"predict", "serve", "audit", "update", "verify", "attest", "gate"},  # named again
    "--encoder": {"predict", "serve", "audit", "update", "verify", "attest", "gate"},  # named again
}
READ = ReadOptions(
    label="kind",
    group_column="maker",
    test="test.csv",
    held_out=0.25,
    schema="schema.json",
    classes=["a", "b"],
    delimiter=";",
    lines=True,
    image_size=(8, 9),
    colour=False,
    n_features=12,
    most_bytes=2_500_000_000,
)


def options_of(command):
    return {name: parameter for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_an_option_says_the_same_wherever_it_stands():
    meanings = defaultdict(set)
    for name, command in COMMANDS.items():
        for option, parameter in options_of(command).items():
            if option.startswith("--") and name not in OF_ONE_COMMAND.get(option, ()):
                meanings[option].add(parameter.help)
    assert {option: said for option, said in meanings.items() if len(said) > 1} == {}
    assert len(meanings) >= 60


def test_every_command_prints_json_if_asked():
    assert {name for name, command in COMMANDS.items() if "--json" not in options_of(command)} == set()


def test_data_is_an_argument_and_its_folder_may_come_from_the_environment():
    for name, command in COMMANDS.items():
        taken = options_of(command)
        assert not {"--data", "--dataset", "--file"} & taken.keys(), name
        if "--data-dir" in taken:
            assert taken["--data-dir"].envvar == "POISONPROOF_DATA"
    by_argument = {name for name, command in COMMANDS.items() if {"data", "dataset"} & options_of(command).keys()}
    assert by_argument >= {
        "plan", "run", "predict", "audit", "update", "verify", "compare", "split",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["run", "plan", "compare"])
def test_every_command_that_reads_files_takes_all_options_about_them(name):
    about_files = {parameter.name for parameter in COMMANDS[name].params}
    assert set(inspect.signature(options.read_options).parameters) <= about_files


def test_a_run_keeps_how_its_files_were_read_and_nothing_is_lost():
    record = json.loads(json.dumps(READ.as_dict()))
    again = ReadOptions.from_dict(record)
    assert again.as_dict() == record
    assert {name for name, value in vars(again).items() if value is None} == set()
    assert options.words_of(again)[-7:] == ["--image-size", "8x9", "--grey", "--n-features", "12", "--max-size", "2.5"]
    assert (ReadOptions().as_dict(), options.words_of(ReadOptions())) == ({}, [])
    with pytest.raises(PoisonproofError) as refused:
        ReadOptions.from_dict({"pickle": "x"})
    assert refused.value.code == "options.unknown"


@pytest.mark.parametrize(
    ("text", "labels"), [("a, b", ["a", "b"]), ("3", ["0", "1", "2"]), ("3,4", ["3", "4"]), ("x", ["x"])]
)
def test_classes_are_labels_or_their_number(text, labels):
    assert options.named_classes(text) == labels


def test_no_number_of_classes_fills_the_memory():
    with refused("options.value"):
        options.named_classes("9999999999")
