"""The examples of docstrings, of the guide and of the README are run as they are printed; so is the notebook."""

import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import aqueduct_io

MODULES = [f"aqueduct_io.{found.name}" for found in pkgutil.iter_modules(aqueduct_io.__path__) if found.name != "_native"]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["aqueduct_io", *MODULES])
def test_examples_of_docstrings(name):
    if name.endswith("xarray"):
        pytest.importorskip("xarray")
    pytest.importorskip("xarray")
    outcome = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert outcome.failed == 0


@pytest.mark.parametrize("page", ["docs/guide-python.md", "README.md", "python/README.md"])
def test_python_lines_of_pages(page):
    path = ROOT / page
    if not path.exists():
        pytest.skip(f"{page} is not beside the tests")
    pytest.importorskip("xarray")
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    scope: dict[str, object] = {"__name__": "page"}
    assert blocks or page == "README.md"
    for block in blocks:
        exec(compile(block, page, "exec"), scope)


def test_the_notebook_runs():
    path = ROOT / "python/examples/heat.ipynb"
    if not path.exists():
        pytest.skip("the notebook is not beside the tests")
    pytest.importorskip("xarray")
    cells = json.loads(path.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    scope: dict[str, object] = {"__name__": "notebook"}
    for number, cell in enumerate(code):
        exec(compile(cell, f"cell {number}", "exec"), scope)
