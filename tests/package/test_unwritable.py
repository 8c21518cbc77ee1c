"""A user without a home, a cache folder or a writable installation: import and certify work all the same."""

import ast
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import poisonproof

pytestmark = pytest.mark.posix

PACKAGE = Path(poisonproof.__file__).parent
AS_NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
# Counting votes is compiled, whatever their number.
CERTIFY = ["certify", "votes.npy", "--spread", "dpa:5", "--classes", "2", "--method", "dpa-bound", "--json"]


def installed(folder):
    """A copy of the package in which nobody can write: a file lies where its cache folders would."""
    copy = folder / "site" / "poisonproof"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for package in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (package / "__pycache__").write_text("")
    np.save(folder / "votes.npy", np.array([[0, 0, 0, 0, 1], [1, 1, 1, 0, 0]]))
    return copy.parent


def homeless(site):
    """An environment in which every folder that Numba might write to cannot be made."""
    gone = os.devnull + "/nowhere"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG", "HOME"))}
    return {**kept, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "HOME": gone, "XDG_CACHE_HOME": gone}


def python_for_nobody():
    """An interpreter like ours that another user may run, and where our libraries are; None if there is none."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        with contextlib.suppress(OSError):
            env = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
            done = subprocess.run(
                [python, "-c", "import numpy"], env=env, check=False, capture_output=True, **AS_NOBODY
            )
            if done.returncode == 0:
                return python
    return None


def say(site, python=sys.executable, **more):
    command = [python, "-c", "from poisonproof.cli.main import main; main()", *CERTIFY]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=site.parent, timeout=600, **more)


def test_certify_works_where_numba_can_cache_nothing(tmp_path):
    site = installed(tmp_path)
    where = [sys.executable, "-c", "import poisonproof; print(poisonproof.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=False, cwd=tmp_path, env=homeless(site))
    assert found.stdout.strip() == str(site / "poisonproof" / "__init__.py"), found.stderr
    done = say(site, env={**homeless(site), "NUMBA_CACHE_DIR": os.devnull + "/nowhere"})
    assert done.returncode == 0, done.stderr
    assert '"radius": [1, 0]' in done.stdout
    assert not list(tmp_path.rglob("*.nbi"))


def test_a_named_cache_folder_is_used(tmp_path):
    site = installed(tmp_path)
    done = say(site, env={**homeless(site), "NUMBA_CACHE_DIR": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "cache").rglob("*.nbi"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_certify_works_for_another_user_on_a_read_only_installation(tmp_path):
    """What the other tests imitate, for real: the user nobody, who owns nothing, in somebody else's folders."""
    site = installed(tmp_path)
    for cache in site.rglob("__pycache__"):
        cache.unlink()
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):  # with several test processes they are one level deeper
        if folder.owner() == tmp_path.owner() and folder.name.startswith(("pytest-", "popen-", tmp_path.name)):
            folder.chmod(0o755)
    python = python_for_nobody()
    if python is None:
        pytest.skip("NOT TRIED AS ANOTHER USER: no interpreter here that others may run")
    env = homeless(site)
    libraries = sysconfig.get_path("purelib")
    done = say(site, python, env={**env, "PYTHONPATH": os.pathsep.join([env["PYTHONPATH"], libraries])}, **AS_NOBODY)
    assert done.returncode == 0, done.stderr
    assert '"radius": [1, 0]' in done.stdout


def test_only_one_module_asks_numba_to_compile():
    """Every kernel goes through `poisonproof.system.compiled`, else one forgotten import crashes such a user again."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                names = {name.name for name in node.names}
                assert not names & {"njit", "jit", "vectorize", "guvectorize"}, path
            if isinstance(node, ast.Attribute) and node.attr in {"njit", "jit", "vectorize"}:
                assert path.name == "compiled.py", path
