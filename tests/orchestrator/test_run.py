import importlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import orchestrator
from analysis.trials import load_trials
from orchestrator import Plan, Result, Study, load_study, plan, run, study_from, verify
from orchestrator.spec import GridBlock, Range, RuleChoice, SearchSpec, StudyError, Task, Training
from orchestrator.store import StoreError, trials
from orchestrator.yaml_file import write


def test_a_run_trains_what_the_study_wants(small, train, statuses, tmp_path):
    result = train(small())
    ended = replace(result, seconds=0.0, left=None)
    assert ended == Result(tmp_path / "run", 32, 0, 32, 0, 0, (), interrupted=False)
    assert result.seconds > 0
    assert result.exit_code == 0
    assert statuses("run") == {"ok": 32}


def test_the_run_folder_is_named_after_the_study(small, tmp_path):
    result = run(small(rules=["bp"], search={"lr": 0.1}), inline=True)
    assert result.folder.resolve() == tmp_path / "runs" / "small"
    assert trials("runs/small").num_rows == 4


def test_a_run_folder_says_what_ran_and_where(small, train, mapping):
    (path := train(small()).folder / "study.given.yaml").with_name("given.yaml")
    assert not path.exists()  # no file was given
    assert load_study("run/study.yaml") == small()
    environment = json.loads((path.parent / "environment.json").read_text())
    assert {"python", "libraries", "host", "processor", "command", "MKL_CBWR"} <= set(environment)
    assert environment["MKL_CBWR"] == "AVX2"
    log = (path.parent / "run.log").read_text()
    assert "small: 0 networks in the table, 32 to train" in log
    assert log.rstrip().endswith("finished")


def test_the_study_as_given_is_kept_beside_the_study_as_resolved(mapping, tmp_path):
    source = tmp_path / "mine.yaml"
    source.write_text("# my notes\n" + write(mapping(rules=["bp"], search={"lr": 0.1})))
    run(load_study(source), "run", inline=True, source=source)
    assert (tmp_path / "run" / "study.given.yaml").read_text() == source.read_text()


def test_a_finished_study_trains_nothing_again(small, train, table):
    train(small())
    before = table("run")
    again = train(small())
    assert (again.trained, again.known, again.exit_code) == (0, 32, 0)
    assert table("run") == before


AGAIN = """
import sys
from orchestrator import load_study, run

result = run(load_study(sys.argv[1] + "/study.yaml"), sys.argv[1], inline="--inline" in sys.argv)
print(result.trained, result.known, {"torch", "ray", "optuna"} & set(sys.modules))
"""


@pytest.mark.parametrize("flags", [[], ["--inline"]], ids=["ray", "inline"])
def test_running_a_finished_study_imports_neither_torch_nor_ray_nor_optuna(finished, flags):
    words = [sys.executable, "-c", AGAIN, str(finished), *flags]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "0 32 set()\n"


def test_a_study_built_in_code_is_the_one_of_the_file(mapping, train, table, finished):
    task = {key: mapping()["task"][key] for key in mapping()["task"] if key != "validation"}
    built = Study(
        name="small",
        task=Task(
            dataset=task.pop("dataset"),
            options=task,
            validation=0.25,
        ),
        training=Training(steps=10, batch_size=16, record=2),
        rules=(RuleChoice(name="bp"), RuleChoice(name="fa")),
        grid=(GridBlock(depth=(1, 2), width=(8,), seeds=2),),
        search=SearchSpec(lr=Range(low=0.01, high=1.0), rounds=2, points=3, seeds=1),
    )
    assert built == study_from(mapping())
    train(built)
    assert table("run") == table(finished)


def test_a_smaller_study_in_the_same_folder_shows_only_what_it_wants(small, train, table):
    fewer = {"rules": ["fa"], "grid": {"depth": 2, "width": 8, "seeds": 1}}
    train(small(**fewer), "alone")
    train(small())
    assert train(small(**fewer)).trained == 0
    assert trials("run").num_rows == 7
    assert table("run") == table("alone")
    train(small())
    assert trials("run").num_rows == 32


CURSED = """
if 2 in trace.streams.seeds:
    raise ValueError("seed 2 is cursed")
"""


def test_a_rule_that_raises_for_one_seed_fails_that_network_only(small, own_rule, train, table):
    study = {"rules": ["bp", own_rule("cursed", CURSED)], "resources": {"replicas": 5}}
    grid = {"depth": [1, 2], "width": 8}
    result = train(small(**study, grid=grid | {"seeds": 5}))
    assert (result.failed, result.exit_code, result.stopped) == (2, 1, ())
    failed = [row for row in trials("run").to_pylist() if row["status"] == "failed"]
    assert {(row["label"], row["init_seed"]) for row in failed} == {("own", 2)}
    for row in failed:
        assert row["error"].startswith("Traceback (most recent call last):")
        assert "cursed.py" in row["error"]
        assert row["error"].rstrip().endswith("ValueError: seed 2 is cursed")
        assert row["test_loss"] is None
    train(small(**study, grid=grid | {"seeds": [0, 1, 3, 4]}), "without")
    others = [row for row in table("run") if row["init_seed"] != "2"]
    assert others == table("without")
    assert train(small(**study, grid=grid | {"seeds": 5})).trained == 0  # not tried again


def test_a_rule_that_always_raises_stops_after_its_first_round(small, own_rule, train, statuses):
    rules = ["bp", own_rule("broken", "if trace.step > 2:\n    raise RuntimeError('never')")]
    result = train(small(rules=rules))
    assert result.exit_code == 1
    assert result.stopped == ("own", "own")  # at both depths
    assert statuses("run") == {"ok": 16, "failed": 6, "pending": 10}
    again = train(small(rules=rules))
    assert (again.trained, again.exit_code, again.stopped) == (0, 1, ("own", "own"))


GREEDY = """
import torch
if len(trace.streams.seeds) > 2:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
"""


def test_a_pack_that_is_too_large_for_the_memory_is_split_and_goes_on(
    small, own_rule, train, table
):
    search = {"lr": 0.1}
    grid = {"depth": 1, "width": 8, "seeds": 7}
    result = train(small(rules=[own_rule("greedy", GREEDY)], search=search, grid=grid))
    assert (result.trained, result.failed) == (7, 0)
    rows = trials("run").to_pylist()
    assert {row["attempts"] for row in rows} == {1}
    train(small(rules=[own_rule("modest")], search=search, grid=grid), folder="modest")
    values = [[row["test_loss"] for row in trials(name).to_pylist()] for name in ("run", "modest")]
    assert values[0] == values[1]


EXPLODES = "lesson = type(lesson)(tuple(1e20 * s for s in lesson.signals))"


def test_a_rule_that_diverges_is_a_result(small, own_rule, train):
    result = train(small(rules=[own_rule("explosive", EXPLODES)]))
    assert (result.diverged, result.failed, result.exit_code) == (16, 0, 0)
    for row in trials("run").to_pylist():
        assert row["status"] == "diverged"
        assert row["test_loss"] is None
        assert row["initial_loss"] > 0
        assert 0 <= row["diverged_step"] <= 10
        assert row["phase"] == "tune" or row["lr"] == 0.01  # all alike: the smallest rate


def test_a_rule_beside_the_studys_file_is_found_from_another_folder(
    mapping, own_rule, tmp_path, monkeypatch
):
    source = tmp_path / "study.yaml"
    search = {"lr": {"low": 0.01, "high": 1.0}, "rounds": 1, "points": 3, "seeds": 1}
    source.write_text(write(mapping(rules=["bp", own_rule("beside")], search=search)))
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    run(load_study(source), "run", inline=True, source=source)
    keys = ("depth", "init_seed", "lr", "status", "curve_train_loss", "test_loss")
    losses = {"own": [], "bp": []}
    for row in trials("run").to_pylist():
        losses[row["label"]].append(tuple(repr(row[key]) for key in keys))
    assert len(losses["own"]) == 10
    assert sorted(losses["own"]) == sorted(losses["bp"])  # it is backpropagation
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    sys.modules.pop("beside")
    assert {v.verdict for v in verify("run", sample=4)} == {"exact"}


def test_an_option_of_a_users_rule_may_be_searched(small, own_rule, train):
    body = "lesson = type(lesson)(tuple(self.size * s for s in lesson.signals))"
    rule = own_rule("sized", body) | {"search": {"size": {"low": 0.5, "high": 2}}}
    assert train(small(rules=[rule], resources={"replicas": 2})).exit_code == 0
    sizes = {json.loads(text)["size"] for text in trials("run")["hyperparameters"].to_pylist()}
    assert {0.5, 1.0, 2.0} <= sizes
    assert all(0.5 <= size <= 2 for size in sizes)
    assert {v.verdict for v in verify("run", sample=4)} == {"exact"}


DATA = """
import numpy as np


def spirals(examples=60, turns=1.0):
    generator = np.random.Generator(np.random.PCG64(3))
    labels = np.arange(examples) % 3
    radius = generator.random(examples)
    angle = 2 * np.pi * (labels / 3 + turns * radius) + 0.1 * generator.standard_normal(examples)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return x[15:], labels[15:], x[:15], labels[:15]
"""


def test_a_users_data_set_is_trained_on(small, tmp_path, train, statuses):
    (tmp_path / "spiral_data.py").write_text(DATA)
    task = {"dataset": "spiral_data:spirals", "options": {"turns": 0.5}, "validation": 0.25}
    result = train(small(task=task))
    assert result.exit_code == 0
    assert statuses("run") == {"ok": 32}
    assert set(trials("run")["dataset"].to_pylist()) == {"spiral_data:spirals"}
    assert {v.verdict for v in verify("run", sample=8)} == {"exact"}
    other = {"dataset": "spiral_data:spirals", "options": {"turns": 0.75}, "validation": 0.25}
    assert train(small(task=other)).trained == 32  # other data, other networks


def test_several_data_sets_are_an_axis(small, tmp_path, train):
    (tmp_path / "two_sets.py").write_text(
        DATA + "\n\ndef tight():\n    return spirals(turns=0.2)\n"
    )
    grid = {"depth": 1, "width": 8, "seeds": 1, "dataset": ["two_sets:spirals", "two_sets:tight"]}
    train(small(task={"validation": 0.25}, grid=grid, rules=["bp"], search={"lr": 0.1}))
    rows = trials("run").to_pylist()
    assert [row["dataset"] for row in rows] == ["two_sets:spirals", "two_sets:tight"]
    assert rows[0]["test_loss"] != rows[1]["test_loss"]


def test_regression_is_chosen_by_loss_and_has_no_accuracies(small, train):
    task = {"dataset": "gaussian-regression", "samples": 32, "validation": 0.25}
    training = {"steps": 5, "batch_size": "full", "loss": "squared", "dtype": "float64"}
    train(small(task=task, training=training))
    for row in trials("run").to_pylist():
        assert row["status"] == "ok"
        assert row["validation_loss"] > 0
        assert row["validation_accuracy"] is row["test_loss"] is row["chance_accuracy"] is None


def test_a_tuning_network_never_sees_the_test_set(finished):
    rows = trials(finished).to_pylist()
    seen = Counter(
        (row["phase"], row["test_loss"] is not None, row["curve_test_loss"] is not None)
        for row in rows
    )
    assert seen == {("tune", False, False): 24, ("evaluate", True, True): 8}


def test_the_evaluated_rate_has_the_least_validation_loss(finished):
    rows = trials(finished).to_pylist()
    for evaluated in (row for row in rows if row["phase"] == "evaluate"):
        tuned = {
            row["lr"]: row["validation_loss"]
            for row in rows
            if row["phase"] == "tune"
            and (row["label"], row["depth"]) == (evaluated["label"], evaluated["depth"])
        }
        assert len(tuned) == 6
        assert evaluated["lr"] == min(tuned, key=tuned.get)


def test_every_row_trains_again_to_exactly_the_same(finished):
    verdicts = verify(finished, sample=1000)
    assert len(verdicts) == 32
    assert {(v.verdict, v.column, v.difference) for v in verdicts} == {("exact", "", 0.0)}


def test_a_row_that_was_changed_does_not_verify(small, train, tmp_path):
    train(small(rules=["bp"], search={"lr": 0.1}))
    for path in (tmp_path / "run" / "trials").iterdir():
        rows = pq.read_table(path)
        place = rows.schema.get_field_index("train_loss")
        wrong = pc.multiply(rows["train_loss"], 2.0)
        changed = rows.set_column(place, "train_loss", wrong)
        pq.write_table(changed, path.with_name(path.name[:13] + ".parquet"))  # without a hash
        path.unlink()
    verdicts = verify("run")
    assert {(v.verdict, v.column, v.difference) for v in verdicts} == {
        ("different", "train_loss", 0.5)
    }


def test_one_row_is_verified_by_its_id(finished):
    trial = trials(finished)["trial"][5].as_py()
    (verdict,) = verify(finished, trial=trial)
    assert (verdict.trial, verdict.verdict) == (trial, "exact")
    with pytest.raises(StoreError, match="has no finished trial nothing"):
        verify(finished, trial="nothing")


def test_a_failed_row_is_verified_too(small, own_rule, train):
    rule = own_rule("cursed_again", CURSED)
    train(small(rules=[rule], search={"lr": 0.1}, grid={"depth": 1, "width": 8, "seeds": 3}))
    (trial,) = [row["trial"] for row in trials("run").to_pylist() if row["status"] == "failed"]
    (verdict,) = verify("run", trial=trial)
    assert (verdict.trial, verdict.verdict) == (trial, "exact")


def test_a_plan_counts_and_changes_nothing(small, finished, files, tmp_path):
    before = files(finished)
    bigger = small(grid={"depth": [1, 2], "width": 8, "seeds": 3})
    found = plan(bigger, finished, workers=2)
    assert isinstance(found, Plan)
    assert found.totals == {
        ("bp", "tune"): 12,
        ("bp", "evaluate"): 6,
        ("fa", "tune"): 12,
        ("fa", "evaluate"): 6,
    }
    assert found.known == {
        ("bp", "tune"): 12,
        ("bp", "evaluate"): 4,
        ("fa", "tune"): 12,
        ("fa", "evaluate"): 4,
    }
    assert found.missing == 4
    assert found.seconds > 0
    assert files(finished) == before
    assert plan(small(), tmp_path / "new" / "run").missing == 32
    assert not (tmp_path / "new").exists()
    assert plan(small(), finished).seconds is None


def test_a_plan_warns_of_comparisons_that_cannot_pass_and_of_unlike_ranges(small):
    rules = ["bp", {"name": "fa", "search": {"lr": {"low": 0.1, "high": 1}}}]
    found = plan(small(rules=rules, compare={"pairs": [["fa", "bp"]]}), measure=False)
    family, ranges = found.warnings
    assert family.startswith("compare: with 2 seeds the least exact p is 0.5")
    assert ranges.startswith("search: the rules' rates have unlike ranges (bp: 0.01 to 1; fa: 0.1")
    assert plan(small(), measure=False).warnings == []


def test_a_frame_has_a_row_a_network(finished):
    df = load_trials(finished)
    assert len(df) == df["trial"].nunique() == 32
    assert df.groupby(["label", "phase"]).size().to_dict() == {
        ("bp", "tune"): 12,
        ("bp", "evaluate"): 4,
        ("fa", "tune"): 12,
        ("fa", "evaluate"): 4,
    }
    assert df["hp_lr"].equals(df["lr"].rename("hp_lr"))
    assert df.loc[df["is_best"] & df["phase"].eq("tune")].groupby(["label", "depth"]).ngroups == 4


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"rules": [{"name": "fa", "options": {"scal": 1}}]}, 'no option "scal"'),
        ({"rules": ["nowhere:Rule"]}, "cannot be imported"),
        ({"task": {"dataset": "nowhere:data"}}, "cannot be imported"),
        ({"training": {"steps": 1, "loss": "squared"}}, "needs the loss cross-entropy"),
    ],
)
def test_a_study_that_cannot_run_is_refused_before_anything_is_written(
    small, train, tmp_path, parts, problem
):
    with pytest.raises(ValueError, match=problem):
        train(small(**parts))
    assert list(tmp_path.iterdir()) == []


def test_what_a_package_offers_stands_at_its_top():
    for module in Path(orchestrator.__file__).parent.glob("*.py"):
        importlib.import_module(f"orchestrator.{module.stem}")
    for name in orchestrator.__all__:
        assert getattr(orchestrator, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'sweep_all'"):
        orchestrator.sweep_all  # noqa: B018
    with pytest.raises(StudyError):
        orchestrator.study_from({})
