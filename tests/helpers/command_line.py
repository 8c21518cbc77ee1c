"""The command line for tests: in this process, or as a person meets it."""

import subprocess
import sys
import warnings
from pathlib import Path

from typer.testing import CliRunner

from poisonproof.cli import app

POISONPROOF = str(Path(sys.executable).with_name("poisonproof"))


def poisonproof(*words, code=0):
    """The command in this process, with its warnings shown as it shows them."""
    with warnings.catch_warnings():
        done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, (done.stdout, done.stderr)
    if code == 2:
        assert done.stdout == ""
    return done


def as_process(*words, code=0, cwd=None):
    """The command as a process of its own."""
    done = subprocess.run([POISONPROOF, *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == code, done.stderr
    if code == 2:
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    return done
