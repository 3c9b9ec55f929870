import dataclasses
import pickle
import subprocess
import sys

import pytest

from orchestrator.spec import (
    AXES,
    Exclusion,
    GridBlock,
    Measure,
    Network,
    Range,
    RuleChoice,
    SearchSpec,
    Study,
    StudyError,
    Task,
    Training,
    load_study,
    study_from,
)
from rules import settings as rule_settings

WHOLE = """
name: depth
task: {dataset: fashion-mnist, validation: 0.1}
network: {activation: tanh, bias: true}
training: {epochs: 15, batch_size: 128, momentum: 0.9, weight_decay: 0, loss: cross-entropy,
  dtype: float32}
rules: [bp, fa, dfa,
  {name: sdil, options: {pert_every: 4}, search: {eta_A: {low: 0.01, high: 0.5}}}]
grid: {depth: [1, 2, 4, 6, 8, 10], width: 256, residual: [false, true], seeds: 10}
search: {lr: {low: 1.0e-4, high: 1.0}, rounds: 2, points: 9, seeds: 3, sampler: tpe, per: cell}
compare: {metric: test_loss, pairs: [[fa, bp], [dfa, bp], [sdil, bp], [sdil, dfa]]}
resources: {cpus: 1, gpus: 0, replicas: auto}
"""


def small(**parts):
    grid = {"depth": 1, "width": 8, "seeds": 2}
    return {"name": "small", "task": {"dataset": "mnist1d"}, "rules": ["bp"], "grid": grid} | parts


@pytest.fixture
def load(tmp_path):
    def load_text(text, overrides=()):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return load_study(path, overrides)

    return load_text


def test_the_whole_study_file_of_the_design_is_read(load):
    study = load(WHOLE)
    assert [rule.label for rule in study.rules] == ["bp", "fa", "dfa", "sdil"]
    assert study.rules[3].options == {"pert_every": 4}
    assert study.space_of(study.rules[3])["eta_A"] == Range(low=0.01, high=0.5)
    assert study.grid[0].depth == (1, 2, 4, 6, 8, 10)
    assert study.grid[0].width == (256,)
    assert study.compare.pairs[3] == ("sdil", "dfa")
    assert (study.searched, study.validation) == (True, 0.1)


def test_a_study_built_in_code_equals_the_one_read_from_a_mapping():
    built = Study(
        name="small",
        task=Task(dataset="mnist1d"),
        rules=(RuleChoice(name="bp"),),
        grid=(GridBlock(depth=(1,), width=(8,), seeds=2),),
    )
    assert built == study_from(small())
    assert hash(built) == hash(study_from(small()))


def test_defaults_are_those_of_the_design():
    study = study_from(small())
    assert study.training == Training(epochs=15, batch_size=128, momentum=0.9, record=5)
    assert study.network == Network(activation="tanh", residual=False, bias=True)
    assert study.search == SearchSpec(lr=Range(low=1e-4, high=1.0), rounds=2, points=9, seeds=3)
    assert study.resources.replicas == "auto"


def test_what_is_measured_mirrors_the_settings_of_the_rules():
    assert Measure().model_dump(exclude={"save_weights"}) == dataclasses.asdict(
        rule_settings.Measure()
    )


def test_validation_follows_whether_anything_is_searched():
    assert study_from(small()).validation == 0.1
    fixed = study_from(small(search={"lr": 0.1}))
    assert (fixed.searched, fixed.validation) == (False, 0.0)
    eta = {"name": "sdil", "search": {"eta_A": {"low": 0.1, "high": 1}}}
    assert study_from(small(search={"lr": 0.1}, rules=[eta])).searched
    assert study_from(small(task={"dataset": "x", "validation": 0.2})).validation == 0.2


def test_a_rule_may_have_its_own_rate():
    rules = ["bp", {"name": "fa", "search": {"lr": 0.5}}]
    study = study_from(small(rules=rules))
    assert study.lr_of(study.rules[0]) == Range(low=1e-4, high=1.0)
    assert study.lr_of(study.rules[1]) == 0.5
    assert study.searched


def test_the_label_of_a_dotted_rule_is_its_class():
    rules = ["my_rules.hebb:Hebb", {"name": "my_rules.hebb:Hebb", "label": "Hebb again"}]
    assert [rule.label for rule in study_from(small(rules=rules)).rules] == ["Hebb", "Hebb again"]


def test_data_set_options_stand_among_the_tasks_keys_or_apart():
    among = {"dataset": "gaussian-regression", "samples": 64, "data_seed": 2027}
    apart = {"dataset": "gaussian-regression", "options": {"samples": 64, "data_seed": 2027}}
    assert study_from(small(task=among)) == study_from(small(task=apart))


@pytest.mark.parametrize(
    ("seeds", "init", "feedback"),
    [
        (3, (0, 1, 2), None),
        ([5, 7], (5, 7), None),
        ({"init": 2, "feedback": [4, 9]}, (0, 1), (4, 9)),
    ],
)
def test_seeds_are_a_count_a_list_or_a_product(seeds, init, feedback):
    block = GridBlock(depth=1, width=8, seeds=seeds)
    assert (block.init_seeds, block.feedback_seeds) == (init, feedback)


def test_tuning_seeds_have_a_namespace_of_their_own():
    assert SearchSpec(seeds=2).seed_list == (1_000_000, 1_000_001)
    assert SearchSpec(seeds=[7, 8]).seed_list == (7, 8)


def test_a_grid_sampler_is_one_round():
    assert SearchSpec(sampler="grid").rounds == 1
    assert SearchSpec(sampler="random").rounds == 2


def test_the_axes_that_keep_a_rate_of_their_own():
    assert SearchSpec().own_axes == AXES
    assert SearchSpec(per="rule").own_axes == ()
    assert SearchSpec(per=["depth"]).own_axes == ("depth",)


def test_blocks_fill_their_axes_from_task_and_network():
    grid = [
        {"depth": 1, "width": [8, 16], "seeds": 1},
        {"depth": [2], "width": {"match_parameters": {"depth": 2, "width": 64}}, "seeds": [9],
         "dataset": ["a", "b"], "residual": [False, True], "activation": "tanh"},
    ]  # fmt: skip
    first, second = study_from(small(grid=grid, network={"activation": "relu"})).blocks
    assert (first.dataset, first.activation, first.residual) == (("mnist1d",), ("relu",), (False,))
    assert (second.dataset, second.residual) == (("a", "b"), (False, True))
    assert second.width.match_parameters.width == 64


def test_an_exclusion_drops_a_cell_that_has_a_value_at_every_key():
    exclusion = Exclusion(label="bp", depth=[8, 16])
    assert exclusion.drops({"label": "bp", "depth": 8, "width": 4})
    assert not exclusion.drops({"label": "fa", "depth": 8, "width": 4})
    assert not exclusion.drops({"label": "bp", "depth": 2, "width": 4})


def test_the_task_needs_no_data_set_where_the_grid_names_them():
    grid = {"depth": 1, "width": 8, "seeds": 1, "dataset": ["a", "b"]}
    assert study_from(small(task={}, grid=grid)).blocks[0].dataset == ("a", "b")


def test_1e_3_is_a_number(load):
    lr = load(WHOLE, ["search.lr=1e-3"]).search.lr
    assert (lr, type(lr)) == (0.001, float)


def test_overrides_are_read_as_yaml_and_reach_into_lists(load):
    over = ["grid.seeds=3", "rules.3.label=mine", "compare={}", "task.samples=40"]
    study = load(WHOLE, [*over, "measure.probes=no"])
    assert study.grid[0].seeds == 3
    assert study.rules[3].label == "mine"
    assert study.task.options == {"samples": 40}
    assert not study.measure.probes


def test_an_override_gives_a_rule_that_is_a_mere_name_a_label(load):
    study = load(WHOLE, ["rules.1.label=feedback alignment", "compare={}"])
    assert (study.rules[1].name, study.rules[1].label) == ("fa", "feedback alignment")


def test_an_override_may_change_the_horizon(load):
    study = load(WHOLE, ["training.epochs=null", "training.steps=50", "training.record=[20, 50]"])
    assert (study.training.steps, study.training.record) == (50, (20, 50))


def test_a_study_error_survives_pickling():
    error = StudyError(["grid: missing", "name: missing"])
    assert str(pickle.loads(pickle.dumps(error))) == "grid: missing\nname: missing"


def test_reading_a_study_imports_neither_torch_nor_ray_nor_optuna_nor_pandas():
    heavy = {"torch", "ray", "optuna", "pandas"}
    code = f"import sys, orchestrator.spec; print({heavy} & {{*sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
