"""Networks trained again: the same as in the table, and there to be probed."""

from pathlib import Path

import pytest
import torch

from analysis.trials import load_trials
from orchestrator import load_network, run, study_from
from orchestrator.store import StoreError

STUDY = {
    "name": "again",
    "task": {"dataset": "mnist-1d"},
    "training": {"steps": 30, "record": 1},
    "rules": ["bp", "dfa"],
    "grid": {"depth": 2, "width": 8, "residual": True, "seeds": 2},
    "search": {"lr": 0.05},
    "measure": {"alignment": False, "probes": False},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("again")
    run(study_from(STUDY), out, inline=True)
    return out


def test_a_loaded_network_has_the_test_accuracy_of_its_row(folder: Path):
    for row in load_trials(folder).itertuples():
        net, params, task = load_network(folder, row.trial)
        assert task.test is not None
        x, labels = task.test.batch(1)
        guesses = net.logits(params, x).argmax(-1)
        assert (guesses == labels).double().mean().item() == row.test_accuracy


def test_a_loaded_networks_hidden_layers_can_be_read(folder: Path):
    trial = load_trials(folder)["trial"].iloc[0]
    net, params, task = load_network(folder, trial)
    layers = list(net.hidden(params, task.train.slice(0, 5).batch(1)[0]))
    assert [tuple(h.shape) for h in layers] == [(1, 5, 8), (1, 5, 8)]
    assert all(torch.isfinite(h).all() for h in layers)


def test_an_unknown_trial_is_named(folder: Path):
    with pytest.raises(StoreError, match="trial 0123 is none"):
        load_network(folder, "0123")
