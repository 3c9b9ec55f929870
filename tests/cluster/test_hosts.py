import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from orchestrator import load_study, run
from orchestrator.columns import named
from orchestrator.store import trials

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]

STUDY = """
name: hosts
task: {dataset: teacher, samples: 200, test_samples: 80, inputs: 8, outputs: 3, width: 8,
       targets: classes, validation: 0.25}
training: {steps: 800, batch_size: 16, record: 4}
rules: [bp, {name: "my_rules.sign_dfa:SignDFA", label: sign}]
grid: {depth: [1, 2, 3], width: 8, seeds: 2}
search: {lr: {low: 0.01, high: 0.3}, rounds: 2, points: 2, seeds: 1}
resources: {replicas: 1}
"""
NETWORKS = 2 * 3 * (2 * 2 + 2)


def table(folder):
    """The table of a run as sorted rows of text: what must be equal wherever it was trained."""
    kept = [*named("coordinate", "result"), "phase", "label", "round", "point"]
    rows = trials(folder).select(kept).to_pylist()
    return sorted(({key: repr(row[key]) for key in kept} for row in rows), key=str)


def count(folder):
    return len(list(folder.glob("trials/part-*.parquet")))


def more_than(parts, folder):
    return lambda: count(folder) > parts


def trained_on(folder):
    """The hosts that have trained networks of a run."""
    return set(trials(folder)["host"].to_pylist()) - {None} if count(folder) > 1 else set()


@pytest.fixture(scope="module")
def project(lab):
    """The study and the code of its own rule, on the laptop only."""
    folder = lab.laptop.own / "home" / "project"
    folder.mkdir()
    (folder / "study.yaml").write_text(STUDY)
    shutil.copytree(ROOT / "examples" / "my_rules", folder / "my_rules")
    rule = folder / "my_rules" / "sign_dfa.py"  # slower, so that there is time to disturb it
    text = rule.read_text().replace(
        "        sign, product", "        time.sleep(0.004)\n        sign, product"
    )
    rule.write_text(text.replace("from dataclasses", "import time\nfrom dataclasses"))
    assert "time.sleep" in rule.read_text()
    (folder / "my_rules" / "data").mkdir()
    (folder / "my_rules" / "data" / "large").write_bytes(bytes(30 * 2**20))
    return lab.laptop.home / "project"


@pytest.fixture(scope="module")
def undisturbed(lab, project):
    """The table of that study, trained in this process alone."""
    folder, study = lab.shared / "undisturbed", lab.laptop.own / "home" / "project" / "study.yaml"
    quick = ["resources.replicas=auto"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        run(load_study(study, quick), folder, inline=True, source=study)
    assert len(table(folder)) == NETWORKS
    return table(folder)


MAKE_BUCKET = """
from urllib.request import Request, urlopen
urlopen(Request("http://{}/lab", method="PUT", headers={{"Authorization": "AWS test:test"}}))
"""


@pytest.fixture(scope="module")
def bucket(cluster):
    """An S3 on a host of its own, to which the laptop and the head have keys; its URI."""
    host = cluster.host("storage", ray=False)
    with (host.own / "log").open("w") as log:
        words = ["python", "-m", "moto.server", "-H", host.address, "-p", "9000"]
        server = host.start(*words, stdout=log, stderr=log)
    place = f"{host.address}:9000"
    make = ["python", "-c", MAKE_BUCKET.format(place)]
    cluster.wait(lambda: host.run(*make, check=False)[0] == 0, server, seconds=30)
    for owner in (cluster.laptop, cluster.hosts["one"]):
        keys = owner.own / "home" / ".aws" / "credentials"
        keys.parent.mkdir()
        keys.write_text("[default]\naws_access_key_id = test\naws_secret_access_key = test\n")
    yield f"s3://lab/runs/disturbed?endpoint_override={place}&scheme=http&region=us-east-1"
    host.end(server)


def mirror(host):
    """Where the driver of a run at a URI has what it has put there."""
    folder = host.own / "home" / ".cache" / "rulesweep" / "mirrors"
    return next(folder.glob("disturbed-*"), folder)


def submit(lab, project, name, *words):
    """Submit the study from the laptop, and follow it; the process and the run's folder."""
    words = ["rulesweep", "submit", "study.yaml", "--set", f"name={name}", *words]
    arguments = {"stdout": -1, "stderr": -2}
    process = lab.laptop.start(*words, cwd=project, **arguments)
    return process, lab.hosts["one"].own / "home" / "rulesweep-runs" / name


def test_the_doctor_sees_every_host(cluster):
    head = cluster.hosts["one"]
    environment = {"COLUMNS": "250", "RULESWEEP_RUNS": str(cluster.shared)}
    code, told = head.run("rulesweep", "cluster", "doctor", environment=environment)
    assert code == 0, told
    assert "3 nodes, 0 faults" in told
    for host in ("one", "two", "three"):
        (line,) = [line for line in told.splitlines() if line.startswith(f"{host} ")]
        assert cluster.hosts[host].address in line
        assert "2.60.0" in line
        assert "yes" in line  # the storage
    wanting = STUDY.replace("{replicas: 1}", "{gpus: 1}")
    (head.own / "home" / "gpu.yaml").write_text(wanting)
    words = ["rulesweep", "cluster", "doctor", "--study", "gpu.yaml", "--storage", "s3://x?y=1"]
    code, told = head.run(*words, check=False)
    assert code == 1
    assert "fault: no node has 1 CPUs and 1 GPU for a worker of the study" in told
    assert "fault: one: storage cannot be reached" in told


def test_without_the_token_nobody_gets_in(cluster, project):
    stranger = cluster.host("stranger", ray=False)
    (stranger.own / "home" / "study.yaml").write_text(
        STUDY.replace("my_rules.sign_dfa:SignDFA", "dfa")
    )
    head = cluster.hosts["one"].address
    pipe = cluster.dashboard(stranger)
    try:
        for token in ("", "5a" * 32):
            environment = {"RAY_AUTH_TOKEN": token} if token else {}
            for words in (
                ["run", "study.yaml", "--address", f"{head}:6379", "--out", "run"],
                ["submit", "study.yaml"],
                ["jobs"],
            ):
                code, told = stranger.run("rulesweep", *words, check=False, environment=environment)
                assert code == 2, told
                assert "error: address" in told
                assert "token" in told
                assert "Traceback" not in told
                assert sum(line.startswith("error: ") for line in told.splitlines()) == 1
    finally:
        stranger.end(pipe)


def status(host, run):
    return host.run("rulesweep", "status", run)[1]


def test_a_study_in_a_bucket_goes_on_when_a_host_is_cut_off_and_another_dies(
    cluster, project, bucket, undisturbed
):
    laptop, head, two, three = (cluster.hosts[n] for n in ("laptop", "one", "two", "three"))
    process, _ = submit(cluster, project, "disturbed", "--out", bucket)
    cluster.wait(lambda: trained_on(mirror(head)) >= {"one", "two", "three"}, process)
    two.link("down")
    cluster.wait(more_than(count(mirror(head)) + 3, mirror(head)), process)
    drawing = laptop.start("rulesweep", "figures", bucket, stdout=-1, stderr=-2)
    seen = re.findall(r"(?:bp|sign) +(?:tune|evaluate)[ \d]+ (\d+) *\n", status(laptop, bucket))
    assert 0 < sum(map(int, seen)) < NETWORKS
    two.link("up")
    cluster.wait(more_than(count(mirror(head)) + 3, mirror(head)), process)
    three.kill()
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert f"[{NETWORKS}/{NETWORKS}]" in output  # the lines that one sees on a terminal of its own
    assert "INCOMPLETE" in drawing.communicate(timeout=60)[0]
    assert "INCOMPLETE" not in laptop.run("rulesweep", "figures", bucket)[1]
    fetched = laptop.run("rulesweep", "fetch", bucket, "--no-figures")[1]
    assert f"runs/disturbed: {NETWORKS} networks, 0 pending" in fetched
    assert table(laptop.own / "home" / "runs" / "disturbed") == undisturbed


def job_of(process):
    """The id of a submitted job, once it runs."""
    for line in process.stdout:
        if found := re.match(r"job (stopped-[0-9a-f]{6}) runs at", line):
            return found[1]
    raise AssertionError("it does not run")


def test_a_job_is_stopped_gone_on_with_and_followed_again(cluster, project, undisturbed):
    process, folder = submit(cluster, project, "stopped", "--workers", "1")
    job = job_of(process)
    cluster.wait(lambda: count(folder) >= 4, process)
    told = cluster.laptop.run("rulesweep", "stop", job)[1]
    assert f"job {job} stopped; submit it again to go on" in told
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "interrupted; go on with: rulesweep run study.yaml" in output
    assert "WebSocket" not in output
    kept = trials(folder)["status"].to_pylist().count("ok")
    assert 0 < kept < NETWORKS
    assert f"{kept} trained now" in output
    process, _ = submit(cluster, project, "stopped")
    again = job_of(process)
    cluster.laptop.signal(process, signal.SIGINT)  # the laptop is closed, the job goes on
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert f"job {again} goes on" in output
    listed = cluster.laptop.run("rulesweep", "jobs", environment={"COLUMNS": "200"})[1]
    assert re.search(rf"{again} +stopped +(pending|running|succeeded)", listed)
    assert re.search(rf"{job} +stopped +stopped", listed)
    output = cluster.laptop.run("rulesweep", "jobs", again, timeout=600)[1]
    assert f"{kept} networks in the table" in output
    assert f"[{NETWORKS}/{NETWORKS}]" in output
    assert table(folder) == undisturbed


def test_what_is_wrong_with_a_job_is_one_line(cluster, project):
    laptop = cluster.laptop
    code, told = laptop.run("rulesweep", "stop", "nothing", check=False)
    assert (code, told.count("\n")) == (2, 1)
    assert "no job nothing at http://127.0.0.1:8265; rulesweep jobs lists them" in told
    words = ["rulesweep", "jobs", "--address", "http://127.0.0.1:1"]
    code, told = laptop.run(*words, check=False)
    assert (code, told.count("\n")) == (2, 1)
    assert "nothing answers there; forward the head's port 8265" in told
    code, told = laptop.run("rulesweep", "submit", "study.yaml", "--set", "rules=[bpp]",
                            cwd=project, check=False)  # fmt: skip
    assert (code, told.count("\n")) == (2, 1)
    assert 'no rule "bpp"' in told
