"""Every built-in rule says where it comes from, as BibTeX that cites well."""

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest

from rules import catalog, sources
from rules.sources import citation

ENTRIES = [text for name, text in vars(sources).items() if name.isupper()]


@pytest.mark.parametrize("name", catalog.BUILT_IN)
def test_every_built_in_rule_has_a_source(name: str):
    assert catalog.sources(name)
    assert set(catalog.sources(name)) <= set(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.partition(",")[0])
def test_every_entry_is_bibtex_and_is_cited_with_names_title_venue_and_year(entry: str):
    key = re.match(r"@(?:article|inproceedings|misc|book|phdthesis)\{(\w+),\n", entry)[1]
    assert entry.count("{") == entry.count("}")
    year = re.search(r"year = \{(\d{4})\}", entry)[1]
    assert year in key
    assert re.fullmatch(r'[^"@{}]+, "[^"{}]+", [^"{}]+ ' + year, citation(entry))


def test_keys_and_entries_are_distinct():
    assert len({entry.partition(",")[0] for entry in ENTRIES}) == len(ENTRIES)


def test_names_are_family_names_in_either_order():
    names = "Ada Lovelace and Turing, Alan and de la Cruz, Ana"
    entry = f'@misc{{k,\n  author = "{names}",\n  title = {{On\n    rules}}\n}}'
    assert citation(entry) == 'Lovelace, Turing, de la Cruz, "On rules"'


def test_an_entry_that_cannot_be_read_is_cited_as_it_is():
    assert citation("Lovelace,\n  Notes, 1843") == "Lovelace, Notes, 1843"


@dataclass(frozen=True)
class Heir(catalog.find("fa")):
    """Another rule, which the source of feedback alignment does not describe."""


@dataclass(frozen=True)
class Cited(catalog.find("fa")):
    """A rule with one source, not wrapped in a tuple."""

    sources: ClassVar[str] = "@misc{mine, title = {Mine}, year = {2026}}"


@dataclass(frozen=True)
class Listed(catalog.find("fa")):
    """A rule with its sources in a list, which could change."""

    sources: ClassVar[list[str]] = [Cited.sources]


def test_a_rule_has_the_sources_of_its_own_class_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalog, "find", {"heir": Heir, "cited": Cited, "listed": Listed}.get)
    assert catalog.sources("heir") == ()
    assert catalog.sources("cited") == (Cited.sources,)
    with pytest.raises(catalog.RuleError, match=r'the sources of rule "listed" are .* a tuple of'):
        catalog.sources("listed")
