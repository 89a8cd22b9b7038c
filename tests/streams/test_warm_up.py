"""A worker of ``extract`` has loaded everything before it says that it is ready."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import functools, gc
from infra.roles.extract import warm_up

warm_up()
for loader in gc.get_objects():
    if isinstance(loader, functools._lru_cache_wrapper) and loader.__module__.startswith(("streams.text", "streams.extraction")):
        if not loader.cache_info().currsize:
            print(loader.__module__, loader.__name__)
"""


@pytest.mark.timeout(180)
def test_no_library_or_table_is_left_for_the_first_message() -> None:
    """Times in either language cost one or two seconds at first use."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
