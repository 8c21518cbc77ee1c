"""Real processes that need not import everything first: a process that has done so forks, and the child is the command.

Run as a program it reads one JSON request a line (words, folder, environment, files for output and errors) and answers
each with the exit code of a forked child that called `poisonproof.cli.main.main`. What imports cost, and that each is
there, is tested elsewhere (`tests/cli/test_habits.py`).
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

POISONPROOF = str(Path(sys.executable).with_name("poisonproof"))


def forked_command(words, cwd=None):
    """As `subprocess.run([POISONPROOF, *words], capture_output=True, text=True)`."""
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        request = {"words": words, "cwd": str(Path(cwd or ".").resolve()), "environment": dict(os.environ)}
        parent = _parent()
        parent.stdin.write(json.dumps({**request, "out": str(out), "errors": str(errors)}) + "\n")
        parent.stdin.flush()
        code = json.loads(parent.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_text("utf-8"), errors.read_text("utf-8"))


@cache
def _parent():
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.stdin.close)
    return process


def _serve():
    import poisonproof.cli.main
    import poisonproof.learners.presets
    import poisonproof.runs.report
    import poisonproof.runs.run  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _be_the_command(request)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)


def _be_the_command(request):
    code = 1
    try:
        for number, (name, mode) in enumerate(
            [(os.devnull, os.O_RDONLY), *((request[end], os.O_WRONLY | os.O_CREAT) for end in ("out", "errors"))]
        ):
            os.dup2(os.open(name, mode, 0o600), number)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        sys.argv = [POISONPROOF, *request["words"]]
        from poisonproof.cli.main import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
