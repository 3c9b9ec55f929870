"""A short training on the real Fashion-MNIST, where this machine has it."""

from pathlib import Path

import pytest

from analysis.trials import load_trials
from orchestrator import run, study_from

HERE = Path("/usr/share/datasets/fashion-mnist")

STUDY = {
    "name": "fashion",
    "task": {"dataset": "fashion-mnist"},
    "training": {"steps": 60, "record": 1},
    "rules": ["bp", "dfa"],
    "grid": {"depth": 1, "width": 16, "seeds": 2},
    "search": {"lr": 0.05},
    "measure": {"alignment": False, "probe_examples": 500},
}


@pytest.mark.skipif(not HERE.is_dir(), reason="apt-get install dataset-fashion-mnist")
def test_sixty_steps_learn_the_real_images_far_above_chance(tmp_path: Path):
    run(study_from(STUDY), tmp_path / "run", inline=True)
    df = load_trials(tmp_path / "run")
    assert df["status"].eq("ok").all()
    assert df["test_accuracy"].gt(0.5).all()
    assert df["parameter_count"].eq(784 * 16 + 16 + 16 * 10 + 10).all()
