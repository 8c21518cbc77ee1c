"""What tells one environment from another, and objects of libraries that may not be imported."""

import subprocess
import sys

from poisonproof.system.machine import is_a


def test_objects_are_told_by_classes_that_nobody_imports_for_it():
    import collections

    assert is_a(collections.OrderedDict(), "collections", "OrderedDict")
    assert not is_a({}, "collections", "OrderedDict")
    assert not is_a({}, "collections", "no_such_name")
    ours = "import sys; from poisonproof.system.machine import is_a"
    code = f"{ours}; print(is_a(1, 'colorsys', 'x'), 'colorsys' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
