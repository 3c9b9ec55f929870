import pandas as pd
import pytest

from analysis import captions


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        ([5, 5], "Mean with 95 % t interval (bars) over 5 init seeds"),
        ([5, 0, 3], "Mean with 95 % t interval (bars) over 3 to 5 init seeds"),
        ([1], "Mean over 1 init seed"),
    ],
)
def test_a_caption_says_over_how_many_seeds(n, expected):
    assert captions.means(pd.Series(n)) == expected


def test_a_caption_says_what_is_missing_only_where_something_is(study):
    assert captions.pending(study) == ""
    half = study.assign(status=study["status"].mask(study["depth"].eq(2), "pending"))
    assert captions.pending(half) == "INCOMPLETE: 80 of 480 networks pending."


def test_lost_networks_are_counted_by_rule():
    summary = pd.DataFrame(
        {"label": ["fa", "fa", "bp"], "networks": 5, "diverged": [1, 2, 0], "failed": [0, 0, 1]}
    )
    assert captions.lost(summary, "counted at chance") == (
        "3 of 15 diverged (fa 3); 1 of 15 failed (bp 1); counted at chance."
    )
    assert captions.lost(summary.assign(diverged=0, failed=0), "") == "None of 15 diverged."


def test_a_title_names_the_network(study):
    assert captions.title(study) == "mnist1d, tanh, width 64"
    assert captions.title(study.assign(residual=True)) == "mnist1d, tanh, residual, width 64"
    matched = study.assign(width=study["depth"] * 10)
    assert captions.title(matched) == "mnist1d, tanh, widths matched"
