"""What ``import joblog`` promises: each public name is there, and is what a type checker takes it for."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import joblog


def promised() -> dict[str, str]:
    """Public name -> the module from which a type checker takes it."""
    tree = ast.parse(Path(joblog.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


@pytest.mark.parametrize("name", joblog.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(joblog, name) is getattr(import_module(f"joblog.{promised()[name]}"), name)


def test_a_type_checker_sees_the_same_names() -> None:
    assert sorted(promised()) == joblog.__all__ == sorted(joblog.__all__)
