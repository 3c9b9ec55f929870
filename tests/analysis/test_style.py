import matplotlib as mpl

from analysis.style import looks, style
from rules.catalog import BUILT_IN


def test_the_style_ends_with_its_context():
    before = dict(mpl.rcParams)
    with style():
        assert mpl.rcParams["pdf.fonttype"] == 42
        assert not mpl.rcParams["text.parse_math"]
    assert dict(mpl.rcParams) == before


def test_a_built_in_rule_looks_the_same_whatever_stands_beside_it():
    assert looks(["dfa"])["dfa"] == looks(["bp", "mine", "dfa"])["dfa"]


def test_no_two_rules_of_a_figure_share_a_colour_or_marker():
    found = looks(["bp", "fa", "dfa", "sdil", "mine", "yours", "theirs", "dfa small"])
    assert len({look.color for look in found.values()}) == len(found)
    assert len({look.marker for look in found.values()}) == len(found)


def test_every_built_in_rule_has_a_colour_of_its_own_in_any_company():
    together = looks(BUILT_IN)
    assert len({look.color for look in together.values()}) == len(BUILT_IN)
    assert together == {name: looks(["mine", name])[name] for name in BUILT_IN}


def test_a_users_rule_looks_the_same_in_any_order_of_rows():
    assert looks(["mine", "bp", "yours"]) == looks(["yours", "mine", "bp", "mine"])


def test_looks_come_in_the_order_of_appearance():
    assert list(looks(["sdil", "bp", "sdil", "mine"])) == ["sdil", "bp", "mine"]


def test_more_rules_than_colours_still_have_looks():
    assert len(looks([f"rule {i}" for i in range(40)])) == 40
