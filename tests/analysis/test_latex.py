import re

import numpy as np
import pandas as pd
import pytest

from analysis import stats
from analysis.comparisons import claims, comparisons
from analysis.latex import CAPTIONS, escaped, latex, tables, write_tables

COMPARE = {"metric": "test_accuracy", "pairs": [["fa", "bp"], ["sdil", "fa"]]}


@pytest.fixture
def df(frame, make_rows, probed):
    return frame([probed(row) for row in make_rows(["bp", "fa", "sdil"], depths=[1, 2, 4])])


def body(text):
    """The cells of a table, as LaTeX would split them."""
    rows = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].strip().split("\n")
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", row[:-2])] for row in rows]


def numbers(text):
    return [float(word) for word in re.findall(r"-?\d+\.?\d*", text.replace("$-$", "-"))]


def test_environments_are_closed_in_their_order(df):
    for name, frame in tables(df, COMPARE).items():
        text = latex(frame, CAPTIONS[name], f"tab:{name}")
        opened = []
        for word, environment in re.findall(r"\\(begin|end)\{(\w+)\}", text):
            if word == "begin":
                opened.append(environment)
            else:
                assert opened.pop() == environment
        assert opened == []
        unescaped = re.sub(r"\\[{}]", "", text)
        assert unescaped.count("{") == unescaped.count("}")
        for rule in ("toprule", "midrule", "bottomrule"):
            assert text.count(f"\\{rule}") == 1


def test_every_row_has_as_many_cells_as_there_are_columns(df):
    for name, frame in tables(df, COMPARE).items():
        text = latex(frame, CAPTIONS[name], name)
        [sides] = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
        assert len(sides) == frame.shape[1]
        assert {len(row) for row in body(text)} == {frame.shape[1]}
        assert len(body(text)) == len(frame)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b", r"a\_b"),
        ("50 % & $5 #1", r"50 \% \& \$5 \#1"),
        ("{x}^2~", r"\{x\}\textasciicircum{}2\textasciitilde{}"),
        (r"\alpha", r"\textbackslash{}alpha"),
        ("-0.5 [-.1, 2]", "$-$0.5 [$-$.1, 2]"),
        ("my-2nd rule", "my-2nd rule"),
        ("fa − bp", "fa $-$ bp"),
    ],
)
def test_texts_are_shown_as_they_are(text, expected):
    assert escaped(text) == expected


def test_heads_cells_and_the_caption_are_escaped():
    frame = pd.DataFrame({"p_%": ["a&b", "[x]", "*"]})
    text = latex(frame, "100 % of $x_1$", "tab:a_b#1")
    assert r"\caption{100 \% of \$x\_1\$}" in text
    assert r"\label{tab:a_b-1}" in text
    assert r"p\_\% \\" in text
    assert body(text) == [[r"a\&b"], ["{}[x]"], ["{}*"]]  # a bare [ or * belongs to \\


def test_numbers_are_those_of_the_frame():
    frame = pd.DataFrame({
        "mean": [0.12345, -0.5, np.nan],
        "lr": [1e-5, 0.02, 1.0],
        "n": pd.array([1, None, 1200], dtype="Int64"),
        "edge": pd.array([True, False, None], dtype="boolean"),
        "reason": ["x", None, "y"],
    })  # fmt: skip
    assert body(latex(frame, "", "")) == [
        ["0.123", r"1 $\times 10^{-5}$", "1", "yes", "x"],
        ["$-$0.500", "0.02", "", "no", ""],
        ["", "1", "1200", "", "y"],
    ]


def test_the_tables_of_a_study_have_their_names_and_captions(df):
    found = tables(df, COMPARE)
    names = ["accuracy", "gap", "depth_utility", "probes", "comparisons", "rates"]
    assert list(found) == list(CAPTIONS) == names


def test_a_study_has_no_table_of_what_it_lacks(frame, make_rows):
    assert tables(frame([])) == {}
    rows = [row | {"alignment": None} for row in make_rows(labels=["bp"], depths=[2])]
    fixed = [row | {"lr_low": None, "lr_high": None} for row in rows]
    assert list(tables(frame(fixed))) == ["accuracy"]


def test_accuracies_stand_above_their_intervals_with_rules_in_rows_and_depths_in_columns(df):
    table = tables(df)["accuracy"]
    assert table.columns.tolist() == ["rule", "1", "2", "4"]
    assert table["rule"].tolist() == ["bp", "", "fa", "", "sdil", ""]
    rows = df[df["phase"].eq("evaluate") & df["label"].eq("fa") & df["depth"].eq(4)]
    expected = stats.mean_interval(rows["test_accuracy"])
    assert numbers(table["4"][2]) == [round(expected.mean, 3), 5]
    assert numbers(table["4"][3]) == [round(expected.low, 3), round(expected.high, 3)]
    cells = body(latex(table, "", ""))
    assert numbers(cells[2][3]) == numbers(table["4"][2])


def test_gaps_are_paired_with_the_reference(df):
    table = tables(df)["gap"]
    assert table["rule"].tolist() == ["fa", "", "sdil", ""]
    row = claims(comparisons(df, COMPARE)).iloc[0]
    assert numbers(table["1"][0]) == [round(row["mean"], 3), 5]
    assert numbers(table["1"][1]) == [round(row["low"], 3), round(row["high"], 3)]


def test_lost_networks_are_counted_beside_the_mean(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["fa"], depths=[2]), change.diverged, phase="evaluate", init_seed=0
    )
    assert tables(frame(rows))["accuracy"]["2"][0].endswith("(5, 1 lost)")


def test_depths_that_a_rule_lacks_are_empty(frame, make_rows, change):
    rows = make_rows(labels=["bp"], depths=[2, 4]) + make_rows(labels=["fa"], depths=[4])
    rows = change.to(rows, change.pending, label="bp", phase="evaluate", depth=4)
    table = tables(frame(rows))["accuracy"]
    assert table["4"].tolist()[:2] == ["", ""]
    assert table["2"].tolist()[2:] == ["", ""]


def test_probes_have_a_row_a_cell(df):
    table = tables(df)["probes"].set_index(["rule", "depth"])
    rows = df[df["phase"].eq("evaluate") & df["label"].eq("fa") & df["depth"].eq(4)]
    after, before = (
        np.array(rows[name].tolist()) for name in ("probe_accuracy", "probe_accuracy_untrained")
    )
    row = table.loc[("fa", 4)]
    assert row[["layer 1", "last layer"]].tolist() == pytest.approx(after.mean(axis=0)[[0, -1]])
    assert row["gain"] == pytest.approx((after - before)[:, 0].mean())
    assert row["network"] == pytest.approx(rows["test_accuracy"].mean())
    assert row["input"] == 0.62
    assert (row["n"], len(table)) == (5, 9)


def test_comparisons_say_what_is_claimed_and_why(df):
    table = tables(df, COMPARE)["comparisons"]
    expected = claims(comparisons(df, COMPARE))
    assert table["Holm p"].tolist() == expected["p_holm"].tolist()
    assert table["reason"].tolist() == expected["reason"].tolist()


def test_rates_have_their_range_an_edge_flag_and_what_else_was_searched(frame, make_rows, change):
    rows = make_rows(labels=["bp", "sdil"], depths=[2])
    both = {"lr": 1.0, "hyperparameters": '{"lr": 1.0, "eta_A": 0.2}'}
    rows = change.to(rows, lambda row: row | both, label="sdil", phase="evaluate")
    table = tables(frame(rows))["rates"]
    assert table["rule"].tolist() == ["bp", "sdil"]
    assert table[["lr", "lr low", "lr high"]].to_numpy().tolist() == [[0.01, 1e-4, 1], [1, 1e-4, 1]]
    assert table["at edge"].tolist() == [False, True]
    assert table["eta_A"].tolist() == pytest.approx([np.nan, 0.2], nan_ok=True)


def test_what_is_swept_besides_depth_leads(frame, make_rows):
    rows = make_rows(labels=["bp", "fa"], depths=[2])
    df = frame(rows + [row | {"residual": True} for row in rows])
    for name in ("accuracy", "gap", "comparisons", "rates"):
        assert tables(df)[name].columns[0] == "residual"


def test_every_table_is_written_with_the_runs_comparisons(tmp_path, df):
    (tmp_path / "study.yaml").write_text(f"compare: {COMPARE}")
    written = write_tables(df, tmp_path, tmp_path / "latex")
    assert {path.stem for path in written} == set(CAPTIONS)
    expected = latex(tables(df, COMPARE)["comparisons"], CAPTIONS["comparisons"], "tab:comparisons")
    assert (tmp_path / "latex" / "comparisons.tex").read_text() == expected
