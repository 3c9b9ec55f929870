import json
from itertools import product

import numpy as np
import pytest

from analysis.seed_scripts import draw_seed_figures, seed_table, write_seed_json
from analysis.trials import load_trials

MODES = ("bp", "dfa", "sdil", "fa")
DEPTHS = (1, 2, 4, 6, 10)
DATASETS = ("digits", "fmnist")


def runs():
    """Two data sets, five depths, three seeds, with everything that may be missing."""
    rng = np.random.default_rng(3)
    found = {}
    for dataset, mode, depth, seed in product(DATASETS, MODES, DEPTHS, range(3)):
        cos = {} if mode == "bp" else {"cos_r_negg": rng.uniform(-0.2, 1, depth).tolist()}
        given = {"seed": seed} if seed else {}
        found[f"{dataset}_{mode}_d{depth}_s{seed}"] = {
            "args": {"dataset": dataset, "mode": mode, "depth": depth, "tag": None, **given},
            "final": {"test_acc": rng.uniform(), "more": [{"of": mode}], **cos},
        }
    for seed in range(3):
        found[f"fmnist_dfa_d6_s{seed}"]["final"]["test_acc"] = None
        del found[f"digits_bp_d4_s{seed}"], found[f"digits_sdil_d10_s{seed}"]
    found["fmnist_sdil_d4_s1"]["final"] |= {"test_acc": None, "cos_r_negg": None}
    found["fmnist_dfa_d2_s2"]["final"]["cos_r_negg"] = []
    return found


@pytest.fixture
def folder(tmp_path):
    for name, content in runs().items():
        (tmp_path / f"depth_{name}.json").write_text(json.dumps(content))
    return tmp_path


def of(content, dataset, mode, depth, key):
    rows = [content[name] for name in sorted(content)]
    where = {"dataset": dataset, "mode": mode, "depth": depth}
    return [row["final"].get(key) for row in rows if where.items() <= row["args"].items()]


def expected_cell(values):
    known = [value for value in values if value is not None]
    if not known:
        return None, " n/a "
    mean = np.mean(known)
    return mean, f"{mean:.4f}±{np.std(known):.3f}"


def test_the_printed_accuracies_are_means_and_population_deviations_to_four_decimals(folder):
    content, lines = runs(), seed_table(load_trials(folder, "depth")).split("\n")
    assert lines[1] == "############ depth dataset=digits ############"
    head = " depth |                 bp |                dfa |               sdil |  dfa->sdil gap"
    starts = [i + 1 for i, line in enumerate(lines) if line == head]
    assert len(starts) == 2
    for start, dataset in zip(starts, DATASETS, strict=True):
        for line, depth in zip(lines[start : start + 5], DEPTHS, strict=True):
            cells = {
                mode: expected_cell(of(content, dataset, mode, depth, "test_acc"))
                for mode in ("bp", "dfa", "sdil")
            }
            dfa, sdil = cells["dfa"][0], cells["sdil"][0]
            gap = "" if dfa is None or sdil is None else f"{sdil - dfa:+.4f}"
            texts = [f"{text:>18}" for _, text in cells.values()]
            assert line == " | ".join([f"{depth:6}", *texts, f"{gap:>14}"])


def test_the_printed_alignments_are_means_by_layer_and_of_the_early_third(folder):
    content, lines = runs(), seed_table(load_trials(folder, "depth")).split("\n")
    found = [line for line in lines if "early3rd" in line]
    expected = []
    for dataset in DATASETS:
        for depth in DEPTHS:
            for mode in ("dfa", "sdil"):
                lists = [c for c in of(content, dataset, mode, depth, "cos_r_negg") if c]
                if lists:
                    means = np.mean(lists, axis=0)
                    early = means[: max(1, depth // 3)].mean()
                    layers = " ".join(f"{mean:+.2f}" for mean in means)
                    expected.append(f" d{depth:<2} {mode:4} early3rd={early:+.3f} | {layers}")
    assert found == expected


def test_the_figures_have_the_scripts_names(tmp_path):
    for mode, depth in product(MODES, (2, 4)):
        args = {"dataset": "fmnist", "mode": mode, "depth": depth}
        final = {"test_acc": 0.5, "cos_r_negg": [0.5] * depth}
        text = json.dumps({"args": args, "final": final})
        (tmp_path / f"depth_{mode}_{depth}.json").write_text(text)
    written = draw_seed_figures(tmp_path, "depth")
    images = [path for path in written if path.suffix == ".png"]
    names = ["depth_fmnist_acc_vs_depth.png", "depth_fmnist_depth_utility.png"]
    assert images == [tmp_path / "figs" / name for name in names]
    assert all(path.stat().st_size for path in written)


KEPT = [
    "label", "rule", "dataset", "depth", "width", "activation", "residual", "init_seed",
    "feedback_seed", "lr", "status", "test_accuracy",
]  # fmt: skip


def kept(df, *more):
    rows = df[df["phase"].eq("evaluate")][[*KEPT, *more]]
    return rows.sort_values(KEPT[:9], ignore_index=True)


@pytest.fixture
def table(frame, make_rows, probed):
    rows = make_rows(labels=["bp", "my_rule", "sdil"], depths=[1, 3], seeds=2)
    residual = [row | {"residual": True, "trial": f"{row['trial']}r"} for row in rows]
    return frame([probed(row) for row in rows + residual])


def test_a_table_written_and_read_again_is_the_same(tmp_path, table):
    written = write_seed_json(table, tmp_path)
    assert len(set(written)) == len(written) == 24 + 8
    again = load_trials(tmp_path, "depth")
    assert kept(again, "alignment", "test_loss").equals(kept(table, "alignment", "test_loss"))
    assert seed_table(again).split("\n")[2:] == seed_table(table).split("\n")[2:]


def test_probes_written_and_read_again_are_the_same(tmp_path, table):
    written = write_seed_json(table, tmp_path, "mine")
    lists = ["probe_accuracy", "probe_accuracy_untrained", "probe_accuracy_input"]
    assert kept(load_trials(tmp_path, "mine-probe"), *lists).equals(kept(table, *lists))
    content = json.loads(next(path for path in written if "probe" in path.name).read_text())
    assert content["args"]["modes"] == "bp,my_rule,sdil"
    assert {"end2end_acc", "layer_probe_acc"} <= content["probes"]["sdil"].keys()


def test_each_feedback_seed_has_files_of_its_own(tmp_path, frame, make_rows, probed):
    rows = [probed(row) for row in make_rows(labels=["bp", "fa"], depths=[2], seeds=1)]
    rows += [row | {"feedback_seed": 7} for row in rows if row["label"] == "fa"]
    df = frame(rows)
    write_seed_json(df, tmp_path)
    assert kept(load_trials(tmp_path, "depth")).equals(kept(df))
    assert kept(load_trials(tmp_path, "depth-probe")).equals(kept(df))


def test_lost_networks_are_written_with_what_they_count_as(tmp_path, frame, make_rows, change):
    rows = make_rows(labels=["dfa"], depths=[2], seeds=3)
    rows = change.to(rows, change.diverged, phase="evaluate", init_seed=0)
    rows = change.to(rows, change.failed, phase="evaluate", init_seed=1)
    write_seed_json(frame(rows), tmp_path)
    again = load_trials(tmp_path, "depth").set_index("init_seed")
    assert again["status"].to_dict() == {0: "diverged", 1: "failed", 2: "ok"}
    assert again.loc[[0, 1], "test_accuracy"].tolist() == [0.1, 0.1]
    assert seed_table(again.reset_index()) == seed_table(frame(rows)).replace("small", "depth")


def test_pending_networks_are_not_written(tmp_path, frame, make_rows, change):
    rows = change.to(make_rows(labels=["bp"], depths=[2]), change.pending, init_seed=0)
    assert len(write_seed_json(frame(rows), tmp_path)) == 4


def test_an_alignment_with_a_silent_layer_is_not_written(tmp_path, frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[2], seeds=1)
    [path] = write_seed_json(frame([rows[-1] | {"alignment": [None, 0.5]}]), tmp_path)
    assert "cos_r_negg" not in json.loads(path.read_text())["final"]


def test_labels_with_the_same_letters_have_different_files(tmp_path, frame, make_rows):
    rows = make_rows(labels=["a/b", "a b"], depths=[2], seeds=1)
    written = write_seed_json(frame(rows), tmp_path)
    assert len({path.name for path in written}) == 2
    assert set(load_trials(tmp_path, "depth")["label"]) == {"a/b", "a b"}
