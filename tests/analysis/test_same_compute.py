"""Rules with the same compute are compared at the same share of it, whatever their steps."""

from pathlib import Path

import pytest

from analysis import captions
from analysis.matched_gap import gap_rows
from analysis.same_compute import is_same_compute
from analysis.trials import load_trials
from orchestrator import run, study_from

STUDY = {
    "name": "compute",
    "task": {"dataset": "gaussian-regression", "samples": 16, "inputs": 3, "outputs": 2},
    "training": {"steps": 40, "batch_size": "full", "loss": "squared", "record": 4},
    "rules": ["bp", "dfa", "sdil"],
    "grid": {"depth": 2, "width": 4, "seeds": 2},
    "search": {"lr": 0.01},
    "measure": {"alignment": False, "probes": False},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = STUDY | {"training": STUDY["training"] | {"match_compute": "bp"}}
    out = tmp_path_factory.mktemp("compute")
    run(study_from(study), out, inline=True)
    return out


def test_every_rule_takes_the_steps_that_the_same_operations_buy(folder: Path):
    steps = load_trials(folder).groupby("label")["steps"].first()
    weights, hidden, outputs = [3 * 4, 4 * 4, 4 * 2], 8, 2
    core = 4 * sum(weights)
    bp = core + 2 * sum(weights[1:])
    dfa = core + 2 * outputs * hidden
    sdil = dfa + 2 * (1 * weights[1] + 2 * weights[2]) + 4 * outputs * hidden
    assert steps.to_dict() == {"bp": 40, "dfa": round(40 * bp / dfa), "sdil": round(40 * bp / sdil)}


def test_gaps_pair_points_at_the_same_share_of_the_compute(folder: Path):
    df = load_trials(folder)
    rows = gap_rows(df, ("sdil", "bp"))
    assert sorted(rows["step"].unique()) == [0, 10, 20, 30, 40]
    curve = {r.label: r.curve_train_loss for r in df[df["init_seed"].eq(0)].itertuples()}
    gaps = rows[rows["init_seed"].eq(0)].sort_values("step")["gap"]
    wanted = [a - b for a, b in zip(curve["sdil"], curve["bp"], strict=True)]
    assert gaps.tolist() == pytest.approx(wanted)


def test_figures_say_that_the_compute_is_the_same(folder: Path):
    df = load_trials(folder)
    assert is_same_compute(df)
    assert captions.title(df).endswith("same compute")
    assert not is_same_compute(df[df["label"].eq("bp")])
