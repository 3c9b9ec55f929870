"""Tables of a report: where rules, depths and what else is swept stand, and what is flagged."""

import pytest

from analysis.report_losses import divergences, failures
from analysis.report_results import tables
from analysis.report_tables import Cell, grouped, over_depth


def texts(rows):
    return [[cell.text for cell in row] for row in rows]


@pytest.fixture
def made(frame):
    """The tables of rows, by their analysis."""
    return lambda rows, compare=None: {t.kind: t for t in tables(frame(rows), compare or {})}


def one(row):
    return Cell(f"{row['mean']:g}")


def test_depths_are_columns_and_lines_of_a_rule_follow_each_other(study):
    df = study[study["phase"].eq("evaluate") & study["init_seed"].eq(0)].assign(mean=1.0)
    lines = {"{label}": one, "{label}, twice": lambda row: Cell(f"{2 * row['mean']:g}")}
    columns, rows = over_depth(df, lines)
    assert columns == ["rule", *(f"depth {depth}" for depth in (1, 2, 4, 6, 8, 10))]
    assert texts(rows)[:2] == [["bp", *"111111"], ["bp, twice", *"222222"]]
    assert [row[0].under for row in rows[:4]] == [False, True, False, True]


def test_depths_are_rows_where_every_width_has_its_own(study):
    df = study[study["phase"].eq("evaluate") & study["init_seed"].eq(0)]
    df = df[df["label"].isin(["bp", "fa"])].assign(mean=1.0, widths=df["depth"].map(str))
    columns, rows = over_depth(df, {"{label}": one})
    assert columns == ["width", "depth", "bp", "fa"]
    assert texts(rows)[:2] == [["1", "1", "1", "1"], ["2", "2", "1", "1"]]


def test_rows_that_belong_together_share_a_heading(study):
    df = study[study["phase"].eq("evaluate") & study["init_seed"].eq(0)].assign(reference="bp")
    rows = list(grouped(df, ["label", "reference"], lambda row: [Cell(str(row["depth"]))]))
    assert rows[0][0] == Cell("bp − bp", scope="rowgroup", span=6)
    assert texts(rows[1:2]) == [["2"]]


def test_rules_stand_in_the_order_of_the_study(made, make_rows):
    found = made(make_rows(labels=["sdil", "bp", "fa"], depths=[2]))["depth_utility"]
    assert [row[0].text for row in found.rows] == ["sdil", "sdil, layer 1", "fa", "fa, layer 1"]


def test_what_a_study_sweeps_leads_its_rows(made, make_rows):
    rows = make_rows(labels=["bp"], depths=[2])
    found = made(rows + [row | {"residual": True, "dataset": "other"} for row in rows])
    table = found["accuracy_vs_depth"]
    assert table.columns[:3] == ["dataset", "network", "rule"]
    assert texts(table.rows)[0][:3] == ["mnist1d", "plain", "bp"]
    assert texts(table.rows)[1][:3] == ["other", "residual", "bp"]


def test_lost_and_missing_networks_are_flagged_where_they_stand(made, make_rows, change):
    rows = make_rows(labels=["bp", "fa"], depths=[2, 4])
    rows = change.to(rows, change.diverged, label="fa", depth=2, phase="evaluate", init_seed=0)
    rows = change.to(rows, change.pending, label="fa", depth=4, phase="evaluate")
    table = made(rows)["accuracy_vs_depth"]
    [fa] = [row for row in table.rows if row[0].text == "fa"]
    assert fa[1].flags == ("1 diverged",)
    assert fa[2] == Cell("", flags=("5 pending",))


def test_rates_tell_their_range_once_or_for_every_rule(made, make_rows):
    rows = make_rows(labels=["bp", "fa"], depths=[2])
    assert made(rows)["lr_sensitivity"].note.startswith("Searched from 0.0001 to 1.")
    other = [row | {"lr_high": 0.1} if row["label"] == "fa" else row for row in rows]
    cells = texts(made(other)["lr_sensitivity"].rows)
    assert cells[1] == ["bp, searched", "0.0001 to 1"]
    assert cells[3] == ["fa, searched", "0.0001 to 0.1"]


def test_other_searched_values_stand_beneath_the_rate(made, make_rows):
    both = '{"lr": 0.01, "sigma": 0.25}'
    rows = [row | {"hyperparameters": both} for row in make_rows(labels=["sdil"], depths=[2])]
    table = made(rows)["lr_sensitivity"]
    assert table.caption == "Tuned learning rates and other searched values"
    assert texts(table.rows)[1] == ["sdil, sigma", "0.25"]


def test_where_parameters_were_matched_the_gap_is_told_with_units_and_counts(made, make_rows):
    rows = make_rows(
        labels=["bp", "fa"], depths=[1, 2], widths=lambda depth: (90 // depth,),
        parameter_target=3600,
    )  # fmt: skip
    table = made(rows)["gap_vs_depth"]
    assert [row[0].text for row in table.rows] == ["fa − bp", "units a layer", "parameters"]
    assert texts(table.rows)[1][1:] == ["90", "45"]


def test_divergences_are_counted_by_cell_and_phase(frame, make_rows, change):
    rows = make_rows(labels=["bp", "fa"], depths=[2, 3])
    rows = change.to(rows, change.diverged, label="fa", depth=2, phase="evaluate", init_seed=0)
    table = divergences(frame(change.to(rows, change.diverged, phase="tune", depth=3, lr=1.0)))
    assert table.caption == "7 networks diverged"
    assert texts(table.rows) == [
        ["bp, tuning", "", "3 of 15"],
        ["fa, tuning", "", "3 of 15"],
        ["fa, evaluation", "1 of 5", ""],
    ]


def test_failures_with_one_reason_share_a_row(frame, make_rows, change):
    rows = make_rows(labels=["bp", "fa"], depths=[2])
    rows = change.to(rows, change.failed, label="fa", phase="evaluate")
    rows = [
        row | {"error": "T\nKeyError: 3\n"} if row["status"] == "failed" else row for row in rows
    ]
    table = failures(frame(rows))
    assert table.columns == ["rule", "depth", "phase", "networks", "error"]
    assert texts(table.rows) == [["fa", "2", "evaluate", "5", "KeyError: 3"]]


def test_a_study_without_results_has_no_tables(made, make_rows, change):
    rows = [change.pending(row) for row in make_rows(depths=[2])]
    assert made(rows) == {}
    assert made([]) == {}
