"""A study told in words: every setting has its sentence, and grammar follows the numbers."""

import pytest
import yaml

from analysis.report_protocol import bibtex, protocol, question
from analysis.report_words import counted, decimals, duration, listed, number, probability
from orchestrator.folder import sources
from orchestrator.grid import expand
from orchestrator.spec import dump, study_from

TEACHER = {
    "dataset": "teacher", "samples": 80, "test_samples": 40, "inputs": 6, "outputs": 3, "width": 8,
    "targets": "classes",
}  # fmt: skip
STUDY = {
    "name": "small",
    "task": TEACHER,
    "training": {"steps": 10, "batch_size": 16, "record": 2},
    "rules": ["bp", "fa"],
    "grid": {"depth": [1, 2], "width": 8, "seeds": 2},
    "search": {"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 3, "seeds": 1},
}
MATCHED = {"match_parameters": {"depth": 2, "width": 8}}


def told(**parts):
    """The study's question and paragraphs by heading, as its run folder would have it told."""
    study = study_from(STUDY | parts)
    cells = [{"label": e.cell.rule.label, **e.cell.as_dict()} for e in expand(study).evaluations]
    mapping = yaml.safe_load(dump(study))
    paragraphs = protocol(mapping, cells, sources(expand(study)))
    points = {p.heading: " ".join([p.text, *p.points]) for p in paragraphs}
    return {"question": question(mapping, cells)} | points


def test_the_question_names_rules_depths_and_data():
    assert told()["question"] == (
        "How well do the learning rules bp and fa train networks of 1 and 2 hidden layers on "
        "teacher?"
    )


def test_one_of_each_is_told_in_the_singular():
    grid = {"depth": 1, "width": 1, "seeds": 1}
    search = {"lr": {"low": 0.01, "high": 1.0}, "rounds": 1, "points": 2, "seeds": 1}
    words = told(rules=["bp"], grid=grid, search=search, training={"steps": 1})
    assert words["question"].startswith("How well does the learning rule bp train networks of 1 ")
    assert "1 hidden layer of 1 unit, " in words["Networks"]
    assert "trained for 1 update on " in words["Training"]
    assert words["Rules"].startswith("One learning rule: bp")
    assert "1 round of 2 points, each point with 1 tuning seed that" in words["Tuning"]
    assert "from 1 init seed." in words["Evaluation"]


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ({"lr": 0.1}, "Nothing is tuned: the learning rate is fixed at 0.1."),
        ({"lr": {"low": 1e-4, "high": 1.0}}, "is searched from 0.0001 to 1 for each rule on each"),
        ({"per": "rule"}, "for each rule;"),
        ({"per": ["depth", "width"]}, "for each rule and each depth and width;"),
        ({"sampler": "grid"}, "Points are spaced evenly."),
        ({"sampler": "random"}, "Points are drawn at random."),
        ({"sampler": "tpe"}, "a tree-structured Parzen estimator"),
        ({"seeds": [500, 501]}, "each point with 2 tuning seeds"),
        ({"choose": "validation_accuracy"}, "with the highest mean validation accuracy"),
        ({"choose": "validation_loss"}, "with the lowest mean validation loss"),
    ],
)
def test_tuning_is_told(search, sentence):
    assert sentence in told(search=search)["Tuning"]


def test_a_rules_own_options_and_search_are_told_with_it():
    own = {
        "name": "sdil",
        "label": "mine",
        "search": {"lr": 0.2, "sigma": {"low": 0.01, "high": 1}},
    }
    words = told(rules=["bp", own])
    assert "mine (sdil): eta_A = 0.1" in words["Rules"]
    assert "learning rate fixed at 0.2; sigma searched from 0.01 to 1" in words["Rules"]
    assert "unless it says otherwise above" in words["Tuning"]


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        ({"epochs": 2}, "for 2 epochs (2 updates) on batches of 128"),
        ({"steps": 1500, "batch_size": "full"}, "for 1,500 updates on the whole training set"),
        ({"momentum": 0.0, "weight_decay": 0.01}, "with no momentum and weight decay 0.01"),
        ({"optimizer": "adam"}, "with Adam (decay of the mean 0.9, of the mean square 0.999"),
        (
            {"schedule": "cosine", "warmup": 0.05},
            "The learning rate rises linearly over the first "
            "5 % of the updates and then falls to 0 as half a cosine; weight decay follows it.",
        ),
        ({"compile": True}, "The training step is compiled to machine code (torch.compile)."),
        ({"normalize_signals": True}, "scaled to the norm of the output error"),
        ({"match_compute": "bp", "steps": 10}, "has the compute that bp takes for 10 updates"),
    ],
)
def test_training_is_told(training, sentence):
    assert sentence in told(training=training)["Training"]


def test_the_grid_is_told_in_parts_where_it_has_several():
    grid = [
        {"depth": [1, 3], "width": MATCHED, "seeds": {"init": 2, "feedback": 3}},
        {"depth": 2, "width": [9, 10], "seeds": 2, "residual": [False, True],
         "exclude": [{"label": "fa", "width": 9}]},
    ]  # fmt: skip
    words = told(grid=grid)
    assert "in 2 parts: 1 or 3 hidden layers of the width whose parameter" in words["Networks"]
    assert "nearest to that of 2 layers of 8 units" in words["Networks"]
    assert "9 or 10 units" in words["Networks"]
    assert "without skip connections or with skip connections" in words["Networks"]
    assert "without label fa at width 9" in words["Networks"]
    assert "2 init seeds, each with 3 feedback seeds or 2 init seeds" in words["Evaluation"]


def test_data_are_told_with_their_options_and_the_part_kept_to_choose_by():
    words = told()["Data"]
    assert "samples = 80" in words
    assert "6 inputs, 3 classes, 72 examples to train on" in words
    assert "10 % of the training set is kept" in words


def test_regression_has_no_chance_and_no_probes():
    task = {"dataset": "gaussian-regression"}
    words = told(task=task, training={"steps": 10, "loss": "squared"})
    assert "chance" not in words["Lost networks"]
    assert "Probes" not in words["Measures"]
    assert "target values" in words["Data"]


def test_comparisons_and_the_least_p_are_told():
    words = told(compare={"metric": "test_accuracy", "pairs": [["fa", "bp"]]})["Statistics"]
    assert "by test accuracy: fa with bp; their p-values are adjusted by Holm's" in words
    assert "With 2 seeds no such p-value can be below .5" in words


def test_many_seeds_are_told_with_their_own_interval_and_no_warning():
    words = told(grid={"depth": 1, "width": 8, "seeds": 20})["Statistics"]
    assert "95 % BCa bootstrap intervals" in words
    assert "no such p-value" not in words


def test_what_is_not_measured_is_not_told():
    assert "Measures" not in told(measure={"alignment": False, "probes": False})


def test_numbers_are_told_as_they_are_read():
    assert listed([2, 6, 10]) == "2, 6 and 10"
    assert listed([1200], "or") == "1,200"
    assert listed([]) == ""
    assert [number(value) for value in (3600, 0.05, 1.0, "x", True)] == [
        "3,600", "0.05", "1", "x", "True"
    ]  # fmt: skip
    assert [counted(n, "class") for n in (1, 2)] == ["1 class", "2 classes"]
    assert [duration(s) for s in (4, 70, 7300)] == ["4 s", "1 min 10 s", "2 h 1 min"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.284, -0.0316], [".284", "−.032"]),
        ([1.0, -0.0001], ["1.000", ".000"]),
        ([0.0], [".000"]),
        ([1.5e-5, 2e-5], ["1.5e−05", "2e−05"]),
        ([12345.6], ["1.23e+04"]),
        ([0.5, float("nan")], [".500", ""]),
    ],
)
def test_numbers_that_stand_together_have_equal_digits(values, shown):
    assert decimals(*values) == shown


def test_a_tiny_p_is_not_shown_as_nothing():
    assert [probability(p) for p in (0.0002, 0.0625, 1.0)] == ["<.001", ".062", "1.000"]
    assert probability(float("nan")) == ""


def test_the_works_that_rules_come_from_are_cited_once_each_with_their_rules():
    words = told(rules=["bp", {"name": "kp", "label": "pollack"}, "wm"])["Sources"]
    assert words.startswith("Rules are those of these works, or made after them: bp: Rumelhart, ")
    assert 'pollack: Kolen, Pollack, "Backpropagation without weight transport", ' in words
    assert words.count("Deep learning without weight transport") == 1
    assert "pollack and wm: Akrout, Wilson, Humphreys, Lillicrap, Tweed, " in words


def test_the_works_are_a_bibtex_file():
    study = study_from(STUDY | {"rules": ["bp", "kp", "wm"]})
    text = bibtex(sources(expand(study)))
    assert text.count("@") == 3
    assert text.startswith("@article{rumelhart1986learning,")
    assert bibtex({}) == ""
