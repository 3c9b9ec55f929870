"""`ray up` with examples/clusters/local.yaml, over ssh, to three hosts; and a run brought home."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.store import trials

SSHD = Path("/usr/sbin/sshd")
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not SSHD.exists() or shutil.which("rsync") is None,
        reason="needs sshd and rsync (Debian: openssh-server, rsync)",
    ),
]

SSH = ["ssh", "-i", ".ssh/id_ed25519", "-o", "StrictHostKeyChecking=no"]

STUDY = """
name: small
task: {dataset: digits}
training: {steps: 200}
rules: [bp, fa, dfa]
grid: {depth: [1, 2], width: 8, seeds: 2}
search: {lr: 0.1}
resources: {replicas: 1}
"""
NETWORKS = 3 * 2 * 2


def own_home(host):
    """Make the host's home the one that its list of users names, where ssh looks."""
    passwd = f"sed 's#:/root:#:{host.home}:#' /etc/passwd > {host.own}/passwd"
    host.run("sh", "-ec", f"{passwd}; mount --bind {host.own}/passwd /etc/passwd")


@pytest.fixture
def servers(lab):
    """Three servers with sshd, each with a home of its own, and the laptop's key on them."""
    lab.trust(lab.laptop)
    own_home(lab.laptop)
    key = lab.base / "hosts" / "laptop" / "home" / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    found = [lab.host(name, ray=False) for name in ("first", "second", "third")]
    daemons = []
    for host in found:
        shutil.copy(f"{key}.pub", host.own / "authorized")
        shutil.copy(key, host.own / "host_key")
        settings = [
            f"HostKey={host.own}/host_key",
            f"AuthorizedKeysFile={host.own}/authorized",
            "PermitRootLogin=yes",
            "StrictModes=no",
            "PidFile=none",
            "UsePAM=no",
            f"SetEnv=PYTHONPATH={host.environment['PYTHONPATH']}",
        ]
        options = [word for setting in settings for word in ("-o", setting)]
        own_home(host)
        host.run("mkdir", "-p", "/run/sshd")
        with (host.own / "sshd.log").open("w") as log:
            words = [SSHD, "-D", "-e", "-f", "/dev/null", *options]
            daemons.append(host.start(*words, stdout=log, stderr=log))
    yield found
    for host, daemon in zip(found, daemons, strict=True):
        host.end(daemon)
        host.kill()


@pytest.fixture
def launch_file(lab, servers):
    """The file as shipped, with these servers, and the environment linked in place of installed."""
    text = (ROOT / "examples" / "clusters" / "local.yaml").read_text()
    install = next(line for line in text.splitlines() if "bin/pip install" in line)
    make = next(line for line in text.splitlines() if "python3.11 -m venv" in line)
    venv = Path(sys.prefix)
    changes = {
        "192.168.1.10": servers[0].address,
        "[192.168.1.11, 192.168.1.12]": f"[{servers[1].address}, {servers[2].address}]",
        "YOUR-LOGIN": "root",
        install: "  - test -s ~/rulesweep/constraints.txt",
        make: f"  - ln -sfn {venv} ~/rulesweep-venv",
        "datasets fetch fashion-mnist": "datasets fetch digits",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    folder = lab.laptop.own / "home"
    (folder / "local.yaml").write_text(text)
    (folder / "dist").mkdir()
    shutil.copy(ROOT / "constraints.txt", folder / "dist")
    (folder / "study.yaml").write_text(STUDY)
    return "local.yaml"


def until(condition, seconds=180):
    """Wait until a condition holds."""
    for _ in range(seconds):
        if condition():
            return
        time.sleep(1)
    raise AssertionError("it takes too long")


def ray_runs(server):
    """Whether anything of Ray runs on a server."""
    found = server.running()
    return "ray::" in found or "site-packages/ray/" in found


def forwarded(laptop, head):
    """The head's dashboard at the laptop's port 8265, as the file says."""
    words = ["-N", "-L", "8265:127.0.0.1:8265", f"root@{head.address}"]
    tunnel = laptop.start(*SSH, *words, stderr=subprocess.DEVNULL)
    until(lambda: laptop.run("rulesweep", "jobs", check=False)[0] == 0, 10)
    return tunnel


def test_servers_become_a_cluster_train_a_study_and_it_comes_home(lab, servers, launch_file):
    laptop, head = lab.laptop, servers[0]
    checked = laptop.run("rulesweep", "cluster", "check", launch_file, check=False)[1]
    assert checked.count("error: ") == checked.count("nothing installs rulesweep") == 2
    laptop.run("ray", "up", "--yes", "--no-config-cache", launch_file, timeout=300)
    until(lambda: all(map(ray_runs, servers)))
    wide = {"environment": {"COLUMNS": "250"}, "check": False}
    doctor = ["rulesweep", "cluster", "doctor"]
    until(lambda: "3 nodes, 0 faults" in head.run(*doctor, **wide)[1], 10)
    tunnel = forwarded(laptop, head)
    told = laptop.run("rulesweep", "submit", "study.yaml", timeout=300)[1]
    laptop.end(tunnel)
    assert f"[{NETWORKS}/{NETWORKS}]" in told
    run = f"root@{head.address}:rulesweep-runs/small"
    rsync = {"RSYNC_RSH": " ".join(SSH)}
    told = laptop.run("rulesweep", "fetch", run, "--no-figures", environment=rsync)[1]
    assert f"runs/small: {NETWORKS} networks, 0 pending" in told
    home = trials(laptop.own / "home" / "runs" / "small")
    assert set(home["status"].to_pylist()) == {"ok"}
    assert set(home["host"].to_pylist()) == {server.name for server in servers}
    laptop.run("ray", "down", "--yes", launch_file, timeout=120)
    assert not ray_runs(head)
    until(lambda: not any(map(ray_runs, servers)))
