from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.campaign import campaigns
from orchestrator.grid import expand
from orchestrator.spec import StudyError

REGRESSION = {"dataset": "gaussian-regression", "samples": 32, "validation": 0.25}


def standing(grid):
    """The cells of a grid: label and axes, in order."""
    return [(e.cell.rule.label, *e.cell.axes.values()) for e in grid.evaluations]


def several(values, most=3):
    return st.lists(values, min_size=1, max_size=most, unique=True)


@settings(max_examples=15)
@given(
    rules=several(st.sampled_from(["bp", "fa", "dfa", "sdil"])),
    activations=several(st.sampled_from(["tanh", "relu", "sigmoid"])),
    residuals=several(st.booleans()),
    depths=several(st.integers(1, 20), 5),
    widths=several(st.integers(1, 50), 5),
)
def test_the_grid_holds_every_cell_once_in_the_order_of_the_file(
    small, rules, activations, residuals, depths, widths
):
    axes = {"activation": activations, "residual": residuals, "depth": depths, "width": widths}
    grid = expand(small(rules=rules, grid=axes | {"seeds": 1}))
    expected = [
        (rule, "teacher", depth, width, activation, residual)
        for rule, activation, residual, depth, width in product(
            rules, activations, residuals, depths, widths
        )
    ]
    assert standing(grid) == expected
    assert len({e.cell.content for e in grid.evaluations}) == len(expected)


def test_blocks_stand_one_after_the_other_with_their_own_seeds(small):
    blocks = [
        {"depth": [1, 2], "width": 8, "seeds": 2},
        {"depth": 4, "width": [4, 8], "seeds": [5], "residual": True},
    ]
    grid = expand(small(grid=blocks, rules=["bp"]))
    assert [cell[2:] for cell in standing(grid)] == [
        (1, 8, "tanh", False),
        (2, 8, "tanh", False),
        (4, 4, "tanh", True),
        (4, 8, "tanh", True),
    ]
    diagonal = ((0, 0), (1, 1))
    assert [e.seeds for e in grid.evaluations] == [diagonal, diagonal, ((5, 5),), ((5, 5),)]


def test_exclusions_leave_out_the_cells_they_name_and_no_others(small):
    exclude = [{"label": "fa", "depth": [2, 3]}, {"width": 4, "depth": 1}]
    axes = {"depth": [1, 2, 3], "width": [4, 8], "seeds": 1, "exclude": exclude}
    assert [(c[0], c[2], c[3]) for c in standing(expand(small(grid=axes)))] == [
        ("bp", 1, 8),
        ("bp", 2, 4),
        ("bp", 2, 8),
        ("bp", 3, 4),
        ("bp", 3, 8),
        ("fa", 1, 8),
    ]


def refused(study):
    with pytest.raises(StudyError) as refusal:
        expand(study)
    (line,) = str(refusal.value).splitlines()
    return line


def test_a_grid_of_which_nothing_is_left_is_refused(small):
    axes = {"depth": [1, 2], "width": 8, "seeds": 1, "exclude": [{"width": 8}]}
    assert refused(small(grid=axes)) == "grid: no cell is left; exclude drops them all"


def test_a_cell_that_stands_in_two_blocks_is_refused(small):
    blocks = [{"depth": [1, 2], "width": 8, "seeds": 2}, {"depth": [2, 3], "width": 8, "seeds": 9}]
    line = refused(small(grid=blocks))
    assert line.startswith("grid: the cell bp: ")
    assert "'depth': 2" in line
    assert line.endswith("stands there twice; blocks must not overlap")


def matching(small, depths, depth=2, width=64, **parts):
    reference = {"match_parameters": {"depth": depth, "width": width}}
    return small(
        task={"dataset": "gaussian-regression", "validation": 0.25},
        network={"bias": False},
        training={"steps": 1, "loss": "squared"},
        rules=["bp"],
        grid={"depth": depths, "width": reference, "seeds": 1} | parts,
    )


def test_widths_match_the_parameter_count_of_the_reference(small):
    grid = expand(matching(small, [1, 2, 3, 4, 6]))
    cells = [e.cell for e in grid.evaluations]
    assert [cell.network.width for cell in cells] == [269, 64, 47, 39, 31]
    assert [cell.dims.parameter_count for cell in cells] == [5380, 5376, 5358, 5343, 5425]
    assert {e.target for e in grid.evaluations} == {5376}


@settings(max_examples=8)
@given(depth=st.integers(1, 8), reference=st.integers(1, 4), width=st.integers(40, 90))
def test_no_other_width_matches_better(small, depth, reference, width):
    (evaluation,) = expand(matching(small, depth, reference, width)).evaluations

    def count(units, layers):
        return 16 * units + (layers - 1) * units**2 + 4 * units

    chosen, target = evaluation.cell.network.width, count(width, reference)
    assert evaluation.cell.dims.parameter_count == count(chosen, depth)
    gaps = [abs(count(units, depth) - target) for units in range(1, 2 * chosen + 2)]
    assert gaps.index(min(gaps)) + 1 == chosen


def test_a_reference_that_no_width_reaches_is_refused(small):
    line = refused(matching(small, [1, 60], depth=1, width=1))
    assert line.startswith("grid.width.match_parameters: at depth 60 no width reaches 20 ")


def test_a_loss_that_does_not_fit_the_data_is_refused(small):
    line = refused(small(task=REGRESSION))
    assert line == (
        'training.loss: data set "gaussian-regression" needs the loss squared; got cross-entropy'
    )
    line = refused(small(training={"steps": 1, "loss": "squared"}))
    assert line == 'training.loss: data set "teacher" needs the loss cross-entropy; got squared'


def test_choosing_by_an_accuracy_that_the_data_do_not_have_is_refused(small):
    search = {"choose": "validation_accuracy", "seeds": 1}
    training = {"steps": 1, "loss": "squared"}
    line = refused(small(task=REGRESSION, training=training, search=search))
    assert line.startswith("search.choose: ")
    assert "gaussian-regression" in line
    assert "validation_loss" in line


def test_an_option_that_cannot_be_searched_is_refused(small):
    rule = {"name": "sdil", "search": {"pert_every": {"low": 1, "high": 4}}}
    assert refused(small(rules=[rule])) == (
        'rules: option "pert_every" of "sdil" cannot be searched; these can: lr, eta_A, sigma, rho'
    )


def test_seeds_form_a_product_of_which_bp_trains_once_an_init_seed(small):
    axes = {"depth": 1, "width": 8, "seeds": {"init": 2, "feedback": [7, 8, 9]}}
    found = campaigns(expand(small(grid=axes)))
    seeds = {
        campaign.cells[0].rule.label: [
            (w.trial.init_seed, w.trial.feedback_seed) for w in campaign.evaluating({"lr": 0.1})
        ]
        for campaign in found
    }
    assert seeds["fa"] == [(0, 7), (0, 8), (0, 9), (1, 7), (1, 8), (1, 9)]
    assert seeds["bp"] == [(0, None), (1, None)]


def test_the_horizon_is_counted_in_batches_of_what_is_trained_on(small):
    training = {"epochs": 2.5, "batch_size": 16, "record": 2}
    cell = expand(small(training=training)).evaluations[0].cell
    assert cell.task.examples == 60  # of 80, a quarter kept for validation
    assert cell.training.steps == 10  # 4 batches an epoch, the last one smaller
    assert cell.training.record == (5, 10)


@pytest.mark.parametrize("size", ["full", 60, 1000])
def test_a_batch_is_at_most_the_training_set(small, size):
    cell = expand(small(training={"epochs": 3, "batch_size": size})).evaluations[0].cell
    assert (cell.training.batch_size, cell.training.steps) == (60, 3)
    assert cell.coordinates["batch_size"] == 60


def test_records_past_an_horizon_in_epochs_are_refused(small):
    line = refused(small(training={"epochs": 1, "batch_size": 60, "record": [1, 2]}))
    assert line == "training.record: should end by the last step, 1; got 2"


def test_equal_data_under_another_seed_of_the_generator_are_other_cells(small):
    contents = {
        expand(small(task=small().task.model_dump() | {"data_seed": seed}))
        .evaluations[0]
        .cell.content
        for seed in (1, 2)
    }
    assert len(contents) == 2


def test_a_warm_up_is_a_share_of_the_steps_of_each_rule(small):
    training = {"steps": 40, "optimizer": "adam", "schedule": "cosine", "warmup": 0.25}
    grid = expand(small(training=training | {"match_compute": "bp"}, rules=["bp", "sdil"]))
    for cell in (e.cell for e in grid.evaluations):
        assert cell.training.warmup == round(cell.training.steps / 4)
        assert cell.coordinates["optimizer"] == cell.training.optimizer == "adam"
        assert '"schedule":"cosine"' in cell.content
    assert len({e.cell.training.warmup for e in grid.evaluations}) > 1
