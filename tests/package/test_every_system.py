"""Nothing that only POSIX has is needed to import poisonproof or to make a run."""

import ast
import subprocess
import sys
from pathlib import Path

import poisonproof

SOURCE = Path(poisonproof.__file__).parent
ONLY_POSIX = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "posix", "crypt"}
# Of `os`; what Windows lacks and we use is looked up by getattr, or named here with the place that asks first.
OF_OS = {
    "fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getpgid", "killpg", "setsid", "mkfifo",
    "mknod", "sysconf", "sched_getaffinity", "statvfs", "uname", "wait", "wait3", "wait4", "nice", "chown", "lchown",
    "chroot", "getloadavg", "openpty", "pipe2", "posix_fadvise", "pread", "pwrite", "sendfile", "O_CLOEXEC",
    "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_SYNC", "O_TMPFILE", "WNOHANG",
}  # fmt: skip
ASKED_FIRST = {
    ("system/machine.py", "resource"),  # ImportError is caught
    ("system/machine.py", "sysconf"),  # after /proc was read, or AttributeError is caught
    ("system/parallel.py", "getuid"),
    ("system/threads.py", "sched_getaffinity"),
}
ELSEWHERE = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {modules!r}:
            raise ImportError(name + " is not on this system")

import numpy, numba, sklearn, joblib, matplotlib, pandas, multiprocessing.connection  # their own business
sys.meta_path.insert(0, Blocked())
for name in {modules!r}:
    sys.modules.pop(name, None)
sys.modules.pop("filelock", None)

import poisonproof
from poisonproof.data.reading import load
for found in pkgutil.walk_packages(poisonproof.__path__, "poisonproof."):
    importlib.import_module(found.name)

digits = load("digits").without(range(300, 1415))
model = poisonproof.FiniteAggregationClassifier(
    poisonproof.preset("table"), k=3, d=2, classes=range(10), n_jobs=1
)
outcome = poisonproof.run(digits, model, "run")
print(outcome.certificate.radius.max(), sorted(set(sys.modules) & {modules!r}))
"""


def uses(path):
    """Modules that a file imports, and what it takes from `os`, by name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
            yield from (alias.name for alias in node.names if node.module == "os")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            yield node.attr


def test_what_only_posix_has_is_asked_for_first():
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in uses(path)
        if name in ONLY_POSIX | OF_OS
    }
    assert found == ASKED_FIRST


def test_everything_imports_and_a_run_is_made_without_posix(tmp_path):
    code = ELSEWHERE.format(modules=ONLY_POSIX - {"posix"})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    radius, _, blocked = done.stdout.strip().splitlines()[-1].partition(" ")
    assert int(radius) >= 0
    assert blocked == "[]"
    assert (tmp_path / "run" / "certificate.npz").exists()
