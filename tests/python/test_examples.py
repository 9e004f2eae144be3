"""The programs of examples/python do what they say."""
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
SAYS = {
    "hello.py": r"(rank \d \(.*\): exit 0 and said \d of 4\n){4}",
    "counters.py": r"all     \[42, 42, 42, 42\]\nsome    \[47\]\nreduced 173\n"
                   r"host=0,gpu=0 43\nhost=0,gpu=1 43\nhost=1,gpu=0 48\nhost=1,gpu=1 43\n",
    "survive.py": r"before \[1, 1, 1, 1\]\n"
                  r"killed \{0: 2, 1: 2, 3: 2\} and of rank 2: (FateUnknown|Unreachable|NotExist)\n"
                  r"again  \[1, 1, 1, 1\]\n",
    "warm.py": r"imported \[True, True, True, True\]\nprocesses 4\n",
}


def test_each_example_has_its_output_here():
    assert set(SAYS) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_example(name):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True,
                          timeout=50)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(SAYS[name], done.stdout), done.stdout
    assert done.stderr == ""
