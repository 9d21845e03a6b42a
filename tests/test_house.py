"""What the repository promises about itself: its packages, its imports, its wheel and its lock file."""

import ast
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("domain", "eventstore", "projections", "workers", "api")

# Time, chance and timers come in through ports. These modules are what stands behind the ports.
ADAPTERS = ("eventstore/clock.py",)
PURE = ("domain", "eventstore", "projections", "workers")
THREADED = ("eventstore", "workers")
NEVER = (
    "time",
    "random",
    "secrets",
    "sched",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid.uuid6",
    "uuid.uuid7",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "os.urandom",
    "os.getrandom",
    "asyncio.sleep",
    "threading.Timer",
    "urllib.request",
    "eventsourcing.domain.datetime_now_with_tzinfo",
)


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def imported(tree: ast.AST) -> dict[str, str]:
    """Map each name that an import in *tree* binds to what it stands for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Give the full name of what an expression or an import reaches; empty if it reaches no import."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def used(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of everything imported in *source* and used in it."""
    tree = ast.parse(source)
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node, names)):
            yield node.lineno, name


def impurities(source: str, *, threads: bool) -> list[str]:
    """List each use in *source* of what only an adapter may use."""
    banned = NEVER if threads else (*NEVER, "threading")
    return [
        f"line {line}: {name}"
        for line, name in used(source)
        if any(name == bad or name.startswith(f"{bad}.") for bad in banned)
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic as now",
        "import datetime as dt\nx = dt.datetime.now(dt.UTC)",
        "from datetime import datetime\nx = datetime.utcnow",
        "from datetime import date\nx = date.today()",
        "import uuid\nx = uuid.uuid4()",
        "from uuid import uuid4",
        "import random",
        "def f():\n    from random import choice",
        "import os\nx = os.urandom(8)",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "import threading\nt = threading.Timer(1, print)",
        "from threading import Timer",
    ],
)
def test_a_hidden_source_of_time_or_chance_is_found(source: str) -> None:
    assert impurities(source, threads=True)


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime\nx = datetime.fromisoformat('2030-01-01')",
        "from .clock import time\nx = time()",
        "import os\nx = os.path.join('a', 'b')",
        "from uuid import UUID, uuid5",
        "def f(clock):\n    return clock.time.now()",
    ],
)
def test_what_only_looks_like_one_is_let_through(source: str) -> None:
    assert not impurities(source, threads=False)


def test_threads_are_for_the_store_and_the_workers_only() -> None:
    assert impurities("from threading import Lock", threads=False)
    assert not impurities("from threading import Lock", threads=True)


@pytest.mark.parametrize("path", sources(*PURE), ids=lambda path: str(path.relative_to(ROOT)))
def test_time_and_chance_come_in_through_ports(path: Path) -> None:
    name = path.relative_to(ROOT)
    if str(name) not in ADAPTERS:
        assert not impurities(path.read_text("utf-8"), threads=name.parts[0] in THREADED)


def project() -> dict[str, object]:
    content: dict[str, dict[str, object]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return content["project"]


def requirements(*, extras: bool) -> dict[str, Requirement]:
    """Give what pyproject declares, by canonical name, without joblog itself."""
    about = project()
    dependencies, optional = about["dependencies"], about["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(optional, dict)
    lines = [*dependencies, *(optional["postgres"])]
    if extras:
        lines += [line for group in optional.values() for line in group]
    declared = {canonicalize_name(each.name): each for each in map(Requirement, lines)}
    return {name: each for name, each in declared.items() if name != "joblog"}


def test_what_the_product_imports_is_declared() -> None:
    distributions, declared = packages_distributions(), requirements(extras=False)
    for path in [*sources(*PACKAGES), *(ROOT / "src/joblog").glob("*.py")]:
        tops = {name.partition(".")[0] for _, name in used(path.read_text("utf-8"))}
        for top in tops - sys.stdlib_module_names - {"joblog"}:
            offers = map(canonicalize_name, distributions.get(top, []))
            assert any(name in declared for name in offers), f"{path.relative_to(ROOT)} imports {top}"


def test_the_lock_file_pins_every_declared_package_and_names_no_index() -> None:
    lines = (ROOT / "requirements-dev.lock").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    locked: dict[str, str] = {canonicalize_name(name): version for name, version in pins.items()}

    for name, requirement in requirements(extras=True).items():
        assert requirement.specifier.contains(locked[name]), requirement
    assert not [line for line in lines if "://" in line or line.startswith("-")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and from it the wheel, as a release does; offline."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def product_files() -> set[str]:
    """Name every file of the five folders as users import it."""
    return {
        f"joblog/{path.relative_to(ROOT)}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_every_file_and_no_generic_top_level_name(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {info.filename for info in wheel.infolist()}
        links = [info for info in wheel.infolist() if (info.external_attr >> 16) & 0o170000 == 0o120000]

    assert {name.partition("/")[0] for name in names} == {"joblog", "joblog-0.1.0.dist-info"}
    assert names >= product_files() | {"joblog/__init__.py", "joblog/py.typed"}
    assert "joblog-0.1.0.dist-info/licenses/LICENSE" in names
    assert not links


def test_the_sdist_has_real_files_only(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        members = sdist.getmembers()
    names = {member.name.removeprefix("joblog-0.1.0/") for member in members}

    assert all(member.isfile() or member.isdir() for member in members)
    assert names >= {f"src/{name}" for name in product_files()}
    assert names >= {"tests/conftest.py", "LICENSE", "README.md", "pyproject.toml"}
    assert not {name.partition("/")[0] for name in names} & set(PACKAGES)


def test_the_wheel_imports_in_a_fresh_environment(built: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(fresh / "bin/python"), "install"]
    wheel = next(built.glob("*.whl"))
    subprocess.run([*pip, "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    modules = ", ".join(f"joblog.{package}" for package in PACKAGES)
    code = f"import {modules}; print(joblog.__file__); import sys; sys.exit('domain' in sys.modules)"

    done = subprocess.run(
        [str(fresh / "bin/python"), "-c", code],
        env=os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")},  # for the dependencies
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(fresh)
    assert (fresh / "bin/joblog").exists()
