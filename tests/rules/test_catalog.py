"""What the catalog promises of every built-in rule."""

from dataclasses import fields
from pathlib import Path

import pytest

from rules import catalog
from rules.bp import BP
from rules.dfa import DFA


@pytest.mark.parametrize("name", catalog.BUILT_IN)
def test_what_may_be_searched_comes_with_a_range_around_its_default(name: str):
    options = {option.name: option for option in fields(catalog.find(name))}
    for searched in catalog.searchable(name):
        low, high = options[searched].metadata["range"]
        assert 0 < low <= options[searched].default <= high


@pytest.mark.parametrize("name", catalog.BUILT_IN)
def test_every_option_says_what_it_is(name: str):
    assert all(option.metadata.get("help") for option in fields(catalog.find(name)))


@pytest.mark.parametrize("name", catalog.BUILT_IN)
def test_the_equation_is_the_first_line_of_a_rule_and_its_sources_are_named(name: str):
    told = catalog.find(name).__doc__
    assert "s_l" in told.partition("\n")[0]
    years = [entry.split("year = {")[1][:4] for entry in catalog.sources(name)]
    assert any(year in told for year in years) or "Sources as for" in told


def test_rules_of_packages_are_found_wherever_the_path_leads_and_never_hide_a_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[rulesweep.rules]\nmine = rules.dfa:DFA\nbp = rules.dfa:DFA\n"
    )
    assert "mine" not in catalog.names()
    monkeypatch.syspath_prepend(tmp_path)
    assert catalog.find("mine") is DFA
    assert catalog.find("bp") is BP
    monkeypatch.undo()
    assert "mine" not in catalog.names()
