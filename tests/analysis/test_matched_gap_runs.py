"""The gap of networks that are really trained: the setting of the script this generalises."""

import numpy as np
import pytest

from analysis.gap_files import write_files
from analysis.matched_gap import at_horizon, gap_rows, summarise
from analysis.trials import load_trials
from orchestrator.driver import run
from orchestrator.spec import study_from

REFERENCE = {
    1: (0.073, 0.005),
    2: (0.552, 0.054),
    3: (0.598, 0.053),
    4: (0.697, 0.075),
    6: (0.653, 0.069),
}


def trained(folder, depths, seeds, steps, scale="relu"):
    study = {
        "name": "gap",
        "task": {
            "dataset": "gaussian-regression", "samples": 64, "inputs": 16, "outputs": 4,
            "data_seed": 2027,
        },
        "network": {"activation": "relu", "bias": False},
        "training": {
            "steps": steps, "batch_size": "full", "momentum": 0.0, "loss": "squared",
            "dtype": "float64", "record": [steps * 2 // 5],
        },
        "rules": ["bp", {"name": "fa", "options": {"feedback_scale": scale}}],
        "grid": {
            "depth": depths, "width": {"match_parameters": {"depth": 2, "width": 64}},
            "seeds": seeds,
        },
        "search": {"lr": 0.001},
        "measure": {"probes": False, "alignment": False},
    }  # fmt: skip
    run(study_from(study), folder, inline=True)
    return load_trials(folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two init with two feedback seeds at two depths, 20 steps."""
    return trained(tmp_path_factory.mktemp("run"), [1, 2], {"init": 2, "feedback": 2}, 20)


def test_partners_start_with_the_same_loss_and_so_with_the_same_weights(small):
    start = gap_rows(small).query("step == 0")
    assert len(start) == 8
    assert start["value"].tolist() == pytest.approx(start["reference_value"].tolist(), rel=1e-12)


def test_the_last_recorded_gap_is_that_of_the_tables_losses(small):
    last = at_horizon(gap_rows(small))
    bp = small[small["label"].eq("bp")].set_index(["depth", "init_seed"])["train_loss"]
    fa = small[small["label"].eq("fa")]
    by_hand = [
        loss - bp.loc[(depth, seed)]
        for loss, depth, seed in zip(fa["train_loss"], fa["depth"], fa["init_seed"], strict=True)
    ]
    assert sorted(last["gap"]) == pytest.approx(sorted(by_hand), rel=1e-12)


def test_the_widths_and_counts_are_those_of_the_script(small, tmp_path):
    write_files(small, tmp_path)
    lines = (tmp_path / "parameter_matched_summary.csv").read_text().splitlines()
    assert [line.split(",")[:5] for line in lines[1:]] == [
        ["1", "269", "5380", "4", "4"], ["2", "64", "5376", "0", "4"]
    ]  # fmt: skip


def test_feedback_of_unit_scale_diverges_and_is_counted(tmp_path):
    df = trained(tmp_path, [6], {"init": 2, "feedback": 2}, 20, "unit")
    row = at_horizon(summarise(gap_rows(df))).iloc[0]
    assert row["lost"] == df["status"].eq("diverged").sum() > 0
    assert np.isfinite(row["gap_mean"])


@pytest.mark.slow
def test_the_gaps_of_the_script_come_out_within_three_standard_errors(tmp_path):
    df = trained(tmp_path, list(REFERENCE), {"init": 4, "feedback": 8}, 50)
    assert df["label"].value_counts().to_dict() == {"fa": 160, "bp": 20}
    last = at_horizon(summarise(gap_rows(df))).set_index("depth")
    for depth, (gap, spread) in REFERENCE.items():
        found = last.loc[depth]
        assert found["rows"] == 32
        assert abs(found["gap_mean"] - gap) < 3 * np.hypot(found["gap_sem"], spread)
