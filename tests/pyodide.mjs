// Runs pytest on Pyodide, CPython as WebAssembly: node pyodide.mjs PYODIDE_FOLDER PROJECT [PYTEST_ARGUMENT ...]
// PYODIDE_FOLDER has `node_modules/pyodide`, and the packages that the tests import in `site`. See tests/pythons.py.
import { pathToFileURL } from "node:url";

const [folder, project, ...pytestArguments] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/node_modules/pyodide/pyodide.mjs`));
const python = await loadPyodide({ env: { HOME: "/tmp", PYTHONDONTWRITEBYTECODE: "1" } });
// As it comes: by default each flush, such as the one after a dot, would end a line.
python.setStdout({ write: (bytes) => (process.stdout.write(bytes), bytes.length) });
python.setStderr({ write: (bytes) => (process.stderr.write(bytes), bytes.length) });
for (const [place, root] of [["/site", `${folder}/site`], ["/project", project]]) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
python.globals.set("pytest_arguments", python.toPy(pytestArguments));
// The limit of recursion is the one of an ordinary Python. The project's settings are for plugins that need threads.
process.exitCode = python.runPython(`
import os, sys
from pathlib import Path

sys.path[:0] = ["/project", "/site"]
sys.setrecursionlimit(1000)
os.chdir("/project")
settings = Path("/tmp/pytest.ini")
markers = "\\n".join(f"    {name}: as in pyproject.toml" for name in ("behaviour(*names)", "slow", "llama", "mlx"))
settings.write_text(f"[pytest]\\naddopts = --import-mode=importlib -ra\\nfilterwarnings = error\\nmarkers =\\n{markers}\\n")
import pytest
int(pytest.main(["-c", str(settings), "--rootdir=/project", "-p", "no:cacheprovider", "--tb=short", *pytest_arguments]))
`);
