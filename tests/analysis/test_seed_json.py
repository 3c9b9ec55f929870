import json
import math

import pytest

from analysis.seed_json import read
from analysis.seed_scripts import seed_table
from analysis.trials import load_trials
from orchestrator import store


def write(folder, name, content):
    folder.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"{name}.json").write_text(text)


def run(mode="dfa", depth=2, seed=0, acc=0.5, cos=None, dataset="fmnist", **args):
    args = {"dataset": dataset, "mode": mode, "depth": depth, "seed": seed, **args}
    return {"args": args, "final": {"test_acc": acc, "cos_r_negg": cos}}


def test_files_become_evaluated_rows_of_the_trial_table(tmp_path):
    write(tmp_path, "depth_b", run("sdil", 2, 3, 0.5, [0.1, 0.2], width=128, eta=0.05, tag="b"))
    write(tmp_path, "depth_a", run("bp", 4, 1))
    df = load_trials(tmp_path, "depth")
    assert [column.name for column in store.COLUMNS] == list(df.columns[:-1])
    assert df["trial"].tolist() == ["depth_a", "depth_b"]
    assert df["phase"].eq("evaluate").all()
    assert df["status"].eq("ok").all()
    assert df["study"].eq("depth").all()
    assert (df["label"] == df["rule"]).all()
    names = ["label", "depth", "init_seed", "feedback_seed", "width", "lr", "test_accuracy"]
    assert df.loc[1, names].tolist() == ["sdil", 2, 3, 3, 128, 0.05, 0.5]
    assert df.loc[1, "alignment"] == [0.1, 0.2]


def test_an_extra_of_another_kind_is_ignored(tmp_path):
    write(tmp_path, "depth_a", run(batch_size="full", momentum=None, width="wide", act=3))
    row = load_trials(tmp_path, "depth").iloc[0]
    assert (row["width"], row["activation"]) == (256, "tanh")


def test_what_a_file_does_not_say_is_what_the_scripts_would_take(tmp_path):
    content = {"args": {"dataset": "d", "mode": "dfa", "depth": 3}, "final": {}}
    write(tmp_path, "depth_a", content)
    row = load_trials(tmp_path, "depth").iloc[0]
    assert (row["init_seed"], row["width"], row["activation"]) == (0, 256, "tanh")
    assert not row["residual"]
    assert row["alignment"] is None
    assert math.isnan(row["test_accuracy"])


def test_only_files_of_the_prefix_are_read(tmp_path):
    for name in ("depth_a", "deepres_a", "depths", "deep_depth_a"):
        write(tmp_path, name, run())
    assert load_trials(tmp_path, "deep")["trial"].tolist() == ["deep_depth_a"]
    assert load_trials(tmp_path, "depth")["trial"].tolist() == ["depth_a"]


def test_a_folder_without_such_files_is_refused_in_one_line(tmp_path):
    with pytest.raises(store.StoreError, match="no runs with prefix depth_ in"):
        load_trials(tmp_path, "depth")


def test_nan_is_named_and_left_out(tmp_path, capsys):
    write(tmp_path, "depth_a", run(acc=math.nan, cos=[0.1, 0.3], seed=0))
    write(tmp_path, "depth_b", run(acc=0.5, cos=[math.nan, 0.5], seed=1))
    write(tmp_path, "depth_c", run(acc=math.inf, cos=[0.2, 0.4], seed=2))
    text = seed_table(load_trials(tmp_path, "depth"))
    assert "0.5000±0.000" in text
    assert "early3rd=+0.150 | +0.15 +0.40" in text
    assert capsys.readouterr().err.splitlines() == [
        f"rulesweep: {tmp_path}/depth_a.json: test_acc is nan and is left out",
        f"rulesweep: {tmp_path}/depth_b.json: cos_r_negg is nan and is left out",
        f"rulesweep: {tmp_path}/depth_c.json: test_acc is inf and is left out",
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        ("[1]", "'args' should be a mapping; got null"),
        ('{"args": {"dataset": "d"}, "final": {}}', "args lack mode, depth"),
        ('{"args": {"dataset": "d", "mode": "bp", "depth": 2}}', "'final' should be a mapping"),
        (run(depth="two"), 'depth should be a whole number; got "two"'),
        (run(depth=True), "depth should be a whole number; got true"),
        (run(depth=10**30), "depth should be a whole number; got 1000"),
        (run(acc="0.5"), 'test_acc should be a number; got "0.5"'),
        (run(cos=0.5), "cos_r_negg should be a list of numbers; got 0.5"),
        (run(cos=["a"]), "cos_r_negg should be a number"),
        ({"args": run()["args"], "probes": {"bp": 1}}, "'bp' should be a mapping; got 1"),
    ],
)
def test_a_damaged_file_is_named_and_skipped(tmp_path, capsys, content, reason):
    write(tmp_path, "depth_bad", content)
    write(tmp_path, "depth_good", run())
    assert load_trials(tmp_path, "depth")["trial"].tolist() == ["depth_good"]
    told = capsys.readouterr().err
    assert told.startswith(f"rulesweep: {tmp_path}/depth_bad.json is left out, it cannot be read: ")
    assert reason in told
    assert told.count("\n") == 1


def test_bytes_that_are_no_text_are_damage_too(tmp_path, capsys):
    (tmp_path / "depth_bad.json").write_bytes(b"\xff\xfe{")
    assert read(tmp_path, "depth").num_rows == 0
    assert "depth_bad.json is left out" in capsys.readouterr().err


def test_the_probe_scripts_file_has_a_row_a_mode(tmp_path):
    probes = {
        "bp": {"end2end_acc": 0.9, "layer_probe_acc": [0.7, 0.8]},
        "sdil": {"end2end_acc": 0.8, "layer_probe_acc": [0.6, 0.7]},
    }
    args = {"dataset": "fmnist", "mode": "sdil", "depth": 2, "seed": 4, "residual": 1, "eta": 0.05}
    write(tmp_path, "probe_fmnist", {"args": args, "probes": probes})
    df = load_trials(tmp_path, "probe")
    assert df["label"].tolist() == ["bp", "sdil"]
    assert df["test_accuracy"].tolist() == [0.9, 0.8]
    assert df["probe_accuracy"].tolist() == [[0.7, 0.8], [0.6, 0.7]]
    assert df["init_seed"].eq(4).all()
    assert df["residual"].all()
    assert df["lr"].eq(0.05).all()
