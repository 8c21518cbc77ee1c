"""The command line for tests: in this process, or as a person meets it."""

import json
import os
import subprocess
import warnings
from functools import cache
from importlib.resources import files
from importlib.util import find_spec

from typer.testing import CliRunner

from forking import POISONPROOF, forked_command
from poisonproof import registry
from poisonproof.cli.main import app, load

COMMANDS = {name: load(name) for name in registry.names("commands")}


@cache
def schema_of(command):
    """What the schema of a command's JSON says, and checks; None where no library is there to check it."""
    if find_spec("jsonschema") is None:
        return None
    from jsonschema import Draft202012Validator

    published = json.loads((files("poisonproof.cli") / "schemas" / f"{command}.json").read_text())
    Draft202012Validator.check_schema(published)
    return Draft202012Validator(published)


def check_json(command, stdout):
    """Refuse JSON that its schema does not allow; answers of `predict` stand one on a line."""
    lines = stdout.splitlines()
    assert lines
    for line in lines if command == "predict" else [stdout]:
        record, schema = json.loads(line), schema_of(command)
        if schema is not None:
            schema.validate(record)


def poisonproof(*words, code=0, of=app):
    """The command in this process, with its warnings shown as it shows them; ``of`` another command line."""
    with warnings.catch_warnings():
        done = CliRunner().invoke(of, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, (done.stdout, done.stderr)
    if code == 2:
        assert done.stdout == ""
    elif "--json" in words and code in (0, 3, 5, 6) and done.stdout and of is app:
        check_json(words[0], done.stdout)
    return done


def as_process(*words, code=0, cwd=None):
    """The command as a process of its own, forked from one that has imported the library where the system can."""
    words = [*map(str, words)]
    if hasattr(os, "fork"):
        done = forked_command(words, cwd)
    else:
        done = subprocess.run([POISONPROOF, *words], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == code, done.stderr
    if code == 2:
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    return done
