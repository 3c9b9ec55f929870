import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.parts import Resources
from orchestrator.price import price_of
from orchestrator.yaml_file import StudyError, write


@given(rate=st.integers(0, 10**6), seconds=st.floats(0, 1e9), cpus=st.integers(1, 64))
def test_a_cost_is_rate_times_what_a_worker_takes_times_hours(rate, seconds, cpus):
    wanted = Resources(cpus=cpus, gpus=0.25)
    by_cpu, by_gpu = (price_of(f"{rate}/{unit}-hour", wanted) for unit in ("cpu", "gpu"))
    assert by_cpu.cost(seconds, wanted) == pytest.approx(rate * cpus * seconds / 3600)
    assert by_gpu.cost(seconds, wanted) == pytest.approx(rate * seconds / 4 / 3600)


@pytest.mark.parametrize(
    "text", ["", "1", "1/hour", "1/gpu", "-1/cpu-hour", "x/cpu-hour", "1e3/cpu-"]
)
def test_a_rate_that_is_none_is_refused(text):
    with pytest.raises(StudyError, match="should look like"):
        price_of(text, Resources(gpus=1))


def test_a_price_of_gpus_needs_a_study_that_takes_them():
    with pytest.raises(StudyError, match="the study's workers take no GPU"):
        price_of("1.2/gpu-hour", Resources())


def test_a_plan_says_what_it_costs(command, mapping, tmp_path):
    (tmp_path / "study.yaml").write_text(write(mapping()))
    done = command("plan", "study.yaml", "--price", "3600/cpu-hour", "--workers", "2")
    (cost,) = re.findall(r"about ([0-9.]+) at 3600/cpu-hour: [0-9.]+ cpu-hours", done.out)
    (seconds,) = re.findall(r"about (\d+) s on 2 workers", done.out)
    assert abs(float(cost) - 2 * int(seconds)) <= 1.01  # one a second and worker
    wrong = command("plan", "study.yaml", "--price", "1.2/gpu-hour")
    assert (wrong.code, wrong.out) == (2, "")
