"""The package as others get it: stubs, wheel, version, types."""

import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import attend

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]
sys.path.append(str(PACKAGE))


def test_stubs_are_what_protoc_makes_of_proto(request, tmp_path):
    from generate_stubs import generate

    protoc = request.config.getoption("--protoc")
    version = subprocess.run([protoc, "--version"], check=True, capture_output=True, text=True).stdout
    if not version.startswith("libprotoc 3.21."):
        pytest.skip(f"the stubs are made by protoc 3.21, this is {version}")
    generate(protoc, tmp_path)
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*_pb2.py*")}
    source = PACKAGE / "src"
    kept = {path.relative_to(source): path.read_text() for path in source.rglob("*_pb2.py*") if path.suffix != ".pyc"}
    assert made == kept, "run client/python/generate_stubs.py"


def test_version_is_that_of_the_server():
    project = re.search(r"project\(attend VERSION ([\d.]+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]
    assert attend.__version__ == project
    assert f'version = "{project}"' in (PACKAGE / "pyproject.toml").read_text()


def test_wheel_of_the_source_distribution_works_elsewhere(tmp_path):
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, copy_of_package(tmp_path)],
                   check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    source = PACKAGE / "src"
    sources = {path.relative_to(source).as_posix() for path in source.rglob("*")
               if path.name == "py.typed" or path.suffix in (".py", ".pyi") and "egg-info" not in str(path)}
    assert {name for name in names if ".dist-info/" not in name} == sources
    assert any(name.endswith("LICENSE") for name in names)
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    program = "import attend, sys; assert attend.__file__.startswith(sys.argv[1]); print(attend.__version__)"
    subprocess.run([sys.executable, "-c", program, tmp_path / "installed"], check=True, cwd=tmp_path,
                   env={"PYTHONPATH": str(tmp_path / "installed")})


def copy_of_package(folder):
    """So that building leaves nothing in the clone."""
    return shutil.copytree(PACKAGE, folder / "package",
                           ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", "build"))


def test_types(tmp_path):
    pytest.importorskip("mypy")
    subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "--config-file",
                    PACKAGE / "pyproject.toml", PACKAGE / "src" / "attend", PACKAGE / "tests" / "typed_program.py"],
                   check=True, env={"MYPYPATH": str(PACKAGE / "src")})


def test_types_find_mistakes(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import attend\nattend.attention(1, 2, 3, causal=True)\nattend.attention(1, 2, 3, is_causal=1)\n")
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "--config-file",
                              PACKAGE / "pyproject.toml", wrong], capture_output=True, text=True,
                             env={"MYPYPATH": str(PACKAGE / "src")})
    for words in ('Argument "causal"', "is_causal", "Found 2 errors"):
        assert words in checked.stdout


def test_modules_without_pytorch_or_ml_dtypes():
    """None is loaded by importing this package."""
    program = "import attend, sys; assert not {'torch', 'transformers', 'ml_dtypes'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
