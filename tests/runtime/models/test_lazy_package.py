"""A package known lazily gives its modules at once and the rest when it is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

INIT = (
    "import sys; sys.modules['slow_part_ran'] = sys; from lazy_sample.inner import VALUE; __version__ = '1'; name = 2"
)

ASK = """
import sys
from runtime.models.lazy_package import import_lazily
import_lazily("lazy_sample")
import lazy_sample.inner
before = "slow_part_ran" in sys.modules
{ask}
print(before, "slow_part_ran" in sys.modules)
"""


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        ("", "False False"),
        ("assert lazy_sample.inner.VALUE == 5", "False False"),
        ("getattr(lazy_sample, '__warningregistry__', None)", "False False"),
        ("from lazy_sample import name; assert name == 2", "False True"),
        ("assert lazy_sample.VALUE == 5 and lazy_sample.__version__ == '1'", "False True"),
        ("assert not hasattr(lazy_sample, 'nothing') and lazy_sample.inner.VALUE == 5", "False True"),
    ],
)
def test_the_package_itself_runs_when_it_is_needed(tmp_path: Path, ask: str, expected: str) -> None:
    """Its modules don't need it; its own names do."""
    package = tmp_path / "lazy_sample"
    package.mkdir()
    (package / "__init__.py").write_text(INIT, "utf-8")
    (package / "inner.py").write_text("VALUE = 5", "utf-8")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]" + ASK.format(ask=ask)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_what_is_not_installed_is_left_to_the_import() -> None:
    """Nothing is made up for a package that is not there."""
    from runtime.models.lazy_package import import_lazily

    import_lazily("no_such_package_anywhere")

    assert "no_such_package_anywhere" not in sys.modules
