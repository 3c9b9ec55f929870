import pytest

from analysis.outcomes import counts, evaluated, metric_of, substitute
from analysis.trials import CELL


@pytest.fixture
def lost(frame, make_rows, change):
    """Five seeds of fa: seed 0 diverged, 1 failed, 2 pending; bp finished them all."""
    rows = make_rows(labels=["bp", "fa"], depths=[2])
    rows = change.to(rows, change.diverged, label="fa", phase="evaluate", init_seed=0)
    rows = change.to(rows, change.failed, label="fa", phase="evaluate", init_seed=1)
    return frame(change.to(rows, change.pending, label="fa", phase="evaluate", init_seed=2))


def fa(df):
    return df[df["label"].eq("fa") & df["phase"].eq("evaluate")].set_index("init_seed")


def test_a_diverged_network_counts_at_chance_and_at_ten_times_its_first_loss(lost):
    row = fa(substitute(lost)).loc[0]
    assert row["test_accuracy"] == row["validation_accuracy"] == 0.1
    assert row["test_loss"] == row["train_loss"] == 24.0


def test_a_failed_network_takes_chance_and_first_loss_from_its_equals(lost):
    assert fa(lost)["chance_accuracy"].isna().loc[1]
    row = fa(substitute(lost)).loc[1]
    assert row["test_accuracy"] == 0.1
    assert row["test_loss"] == 24.0


def test_a_failed_network_without_equals_stays_unknown(lost):
    alone = lost[lost["status"].eq("failed")]
    assert substitute(alone)["test_accuracy"].isna().all()


def test_pending_and_finished_networks_keep_what_they_have(lost):
    after, before = fa(substitute(lost)), fa(lost)
    assert after["test_accuracy"].isna().loc[2]
    assert after.loc[[3, 4]].equals(before.loc[[3, 4]])


def test_substitution_does_not_change_the_frame_it_is_given(lost):
    before = lost.copy()
    substitute(lost)
    assert lost.equals(before)


def test_lost_networks_get_no_value_that_their_data_do_not_have(frame, make_rows, change):
    rows = [row | {"test_loss": None} for row in make_rows(labels=["fa"], depths=[2])]
    df = substitute(frame(change.to(rows, change.diverged, init_seed=0)))
    assert df["test_loss"].isna().all()
    assert df["validation_loss"].notna().all()


def test_every_lost_or_missing_network_is_counted(lost):
    cells = counts(evaluated(lost), CELL).set_index("label")
    assert cells.loc["fa", ["networks", "diverged", "failed", "pending"]].tolist() == [5, 1, 1, 1]
    assert cells.loc["bp", ["networks", "diverged", "failed", "pending"]].tolist() == [5, 0, 0, 0]


def test_networks_that_differ_in_more_than_seeds_are_not_averaged(frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[2])
    rows[-1] |= {"batch_size": 7}
    with pytest.raises(ValueError, match=r"label fa, .*depth 2.* differ in batch_size"):
        evaluated(frame(rows))


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ([], "test_accuracy"),
        (["test_accuracy"], "test_loss"),
        (["test_accuracy", "test_loss"], "validation_loss"),
        (["test_accuracy", "test_loss", "validation_loss"], "train_loss"),
    ],
)
def test_a_loss_stands_in_for_a_metric_that_the_data_lack(study, missing, expected):
    df = study.assign(**dict.fromkeys(missing, float("nan")))
    assert metric_of(df, "test_accuracy") == expected


def test_where_all_diverged_chance_tells_whether_there_are_classes(study):
    df = study.assign(status="diverged", test_accuracy=float("nan"))
    assert metric_of(df, "test_accuracy") == "test_accuracy"
    assert metric_of(df.assign(chance_accuracy=float("nan")), "test_accuracy") == "test_loss"
