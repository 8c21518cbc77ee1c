"""Everything in benchmarks/, tools/ and research/ can at least be imported: a renamed function is noticed here."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORT = """
import importlib, sys
sys.path[:0] = [".", "benchmarks", "tools", "tests/helpers"]
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_every_script_can_be_imported():
    names = [path.stem for folder in ("benchmarks", "tools") for path in sorted((ROOT / folder).glob("*.py"))]
    for path in sorted((ROOT / "research").rglob("*.py")):
        if "tests" not in path.parts and path.stem not in ("__main__", "__init__"):
            names.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert len(names) > 60
    done = subprocess.run([sys.executable, "-c", IMPORT, *names], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
