import json

import numpy as np
import pandas as pd
import pytest

from analysis.trials import at_edge, curves, frame_of, layers, load_trials, widths
from orchestrator import store


def test_a_frame_has_the_tables_columns_in_their_order_then_the_derived_ones(study):
    names = [column.name for column in store.COLUMNS]
    assert list(study.columns) == [*names, "hp_lr", "is_best"]


def test_missing_whole_numbers_and_flags_stay_whole_numbers_and_flags(study):
    assert study["feedback_seed"].dtype == "Int64"
    assert study["residual"].dtype == "boolean"
    assert study["lr"].dtype == "float64"
    assert study["label"].dtype == "string"
    assert study.loc[study["label"].eq("bp"), "feedback_seed"].isna().all()


def test_an_empty_table_gives_an_empty_frame_with_the_same_columns(frame, study):
    empty = frame([])
    assert empty.empty
    assert set(empty.columns) == set(study.columns) - {"hp_lr"}
    assert layers(empty).empty
    assert curves(empty).empty
    assert widths(empty).empty


def test_each_searched_value_has_a_column_of_its_own(frame, make_rows):
    rows = make_rows(labels=["fa", "sdil"], depths=[2])
    both = json.dumps({"lr": 0.01, "eta_A": 0.2})
    rows = [row | {"hyperparameters": both} if row["label"] == "sdil" else row for row in rows]
    df = frame(rows)
    assert df.loc[df["label"].eq("sdil"), "hp_eta_A"].eq(0.2).all()
    assert df.loc[df["label"].eq("fa"), "hp_eta_A"].isna().all()


def test_best_are_the_tuning_rows_with_the_values_the_cell_is_evaluated_with(study):
    tuning = study[study["phase"].eq("tune")]
    assert (tuning["is_best"] == tuning["lr"].eq(0.01)).all()
    assert study.loc[study["phase"].eq("evaluate"), "is_best"].all()


def test_nothing_is_best_in_a_cell_that_is_not_evaluated_yet(frame, make_rows, change):
    df = frame(change.to(make_rows(depths=[2, 4]), change.pending, phase="evaluate", depth=2))
    best = df[df["phase"].eq("tune")].groupby("depth")["is_best"].any()
    assert best.to_dict() == {2: False, 4: True}


def test_layers_are_counted_from_one_at_the_input_side(frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[3], seeds=1)
    long = layers(frame([rows[-1] | {"alignment": [0.1, None, 0.3]}]))
    assert long["layer"].tolist() == [1, 2, 3]
    assert long["alignment"].tolist() == pytest.approx([0.1, np.nan, 0.3], nan_ok=True)
    assert long["depth"].tolist() == [3, 3, 3]


def test_networks_without_a_list_have_no_layers(frame, make_rows, change):
    rows = change.to(make_rows(labels=["fa"], depths=[2]), change.diverged, init_seed=0)
    assert 0 not in set(layers(frame(rows))["init_seed"])


def test_curves_have_a_row_a_recorded_step_and_nan_where_nothing_was_recorded(frame, make_rows):
    row = make_rows(labels=["fa"], depths=[2], seeds=1)[-1]
    row |= {"curve_step": [0, 7], "curve_train_loss": [2.0, 1.0], "curve_test_loss": None}
    row |= {"curve_alignment": [[0.0, 0.1], [0.2, 0.3]]}
    row |= {"curve_validation_loss": [2.0, 1.5], "curve_test_accuracy": [0.1, 0.5]}
    long = curves(frame([row]))
    assert long["step"].tolist() == [0, 7]
    assert long["train_loss"].tolist() == [2.0, 1.0]
    assert long["test_loss"].isna().all()
    assert long["alignment"].tolist() == [[0.0, 0.1], [0.2, 0.3]]


@pytest.mark.parametrize(
    ("of_depth", "expected"),
    [
        (lambda depth: (64,), {"64"}),
        (lambda depth: (256 // depth,), {"by depth"}),
        (lambda depth: (32, 64), {"32", "64"}),
    ],
)
def test_a_line_over_depth_holds_the_width_fixed_or_takes_the_one_of_each_depth(
    frame, make_rows, of_depth, expected
):
    df = frame(make_rows(labels=["bp"], depths=[2, 4], widths=of_depth))
    assert set(widths(df)) == expected


@pytest.mark.parametrize(
    ("lr", "low", "high", "expected"),
    [
        (1e-4, 1e-4, 1.0, True),
        (1.5e-4, 1e-4, 1.0, True),
        (1.7e-4, 1e-4, 1.0, False),
        (0.6, 1e-4, 1.0, False),
        (0.7, 1e-4, 1.0, True),
        (1.0, 1e-4, 1.0, True),
        (0.01, None, None, False),
        (None, 1e-4, 1.0, False),
    ],
)
def test_the_edge_is_the_outer_twentieth_of_the_log_range(lr, low, high, expected):
    row = pd.DataFrame({"lr": [lr], "lr_low": [low], "lr_high": [high]}, dtype="float64")
    assert at_edge(row).tolist() == [expected]


def test_a_run_folder_gives_one_row_a_wanted_network(tmp_path, make_rows, change, table_of):
    rows = make_rows(labels=["bp"], depths=[2], seeds=2)
    plans = [{**row, **change.pending(row)} | {"lr": row["lr"]} for row in rows]
    writer = store.Store(tmp_path)
    names = [*store.named("coordinate", "plan"), "status"]
    writer.append(table_of([{name: plan.get(name) for name in names} for plan in plans]))
    writer.add(table_of(rows[:-1]))
    (tmp_path / "resolved.json").write_text(json.dumps({"study_id": "s1"}))
    df = load_trials(tmp_path)
    assert len(df) == len(rows)
    assert df["status"].value_counts().to_dict() == {"ok": len(rows) - 1, "pending": 1}
    assert frame_of(store.trials(tmp_path)).equals(df)
