# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: ``@pytest.mark.lamina(max_macs="2G")`` compares the models that a test runs with a
budget, and ``pytest --lamina`` runs the checks of ``lamina.toml`` or ``pyproject.toml`` as tests. See
docs/check.md. pytest imports this in every run: the rest of lamina, and torch, are only imported when they
are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

MARKER = (
    "lamina(max_METRIC='2G', baseline='macs.json', within='5%', allow_incomplete=False, convention=None): "
    "fail if a model that the test runs is over this budget"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--lamina``."""
    group = parser.getgroup("lamina")
    group.addoption(
        "--lamina",
        action="store_true",
        help="also run the checks of lamina.toml or [tool.lamina] of pyproject.toml",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, as ``--strict-markers`` requires."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Adds the checks of the project's file, before ``-k`` and ``-m`` choose."""
    if config.getoption("--lamina"):
        from ._targets import targets_of

        items.extend(targets_of(session))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Watches the models that a marked test runs. An exception of the test itself propagates unchanged."""
    marker = item.get_closest_marker("lamina")
    if marker is None:
        yield
        return
    from ._watching import Watching

    watching = Watching(marker, item.config.rootpath)
    with watching:
        outcome = yield
    problem = watching.problem()
    if problem is not None and outcome.excinfo is None:
        outcome.force_exception(pytest.fail.Exception(problem, pytrace=False))
