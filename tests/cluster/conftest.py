"""Hosts of one machine: each a network, process, mount and host name space of its own, on a switch.

Needs root, and a kernel that permits it. What a host does not share with the others: its network
and address, its processes, its home folder, /dev/shm and Ray's folder in /tmp.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORWARD = Path(__file__).with_name("forward.py")
DASHBOARD = "127.0.0.1:8265"
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "1000",  # a cut-off host is noticed in seconds
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "OMP_NUM_THREADS": "1",
    "MKL_CBWR": "AVX2",
    "AWS_EC2_METADATA_DISABLED": "true",  # no cloud is asked for keys
}


def missing():
    """Why hosts cannot be made here; empty where they can."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    for tool in ("ip", "unshare", "nsenter", "mount"):
        if shutil.which(tool) is None:
            return f"needs the command {tool} (Debian: iproute2, util-linux)"
    words = ["unshare", "-n", "-p", "-m", "-u", "-f", "--mount-proc", "ip", "link", "add"]
    words += ["name", "end1", "type", "veth", "peer", "name", "end2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"namespaces are not permitted: {done.stderr.strip()}"


def child_of(pid):
    """The first child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


SESSIONS = Path(tempfile.gettempdir(), "ray")
"""Where Ray keeps what it is doing, on every host."""


class Host:
    """One host; its first process ends with it."""

    def __init__(self, name, address, base):
        self.name, self.address, self.base = name, address, base
        self.home = base / "home"  # the same path on every host, and another folder
        self.own = base / "hosts" / name
        for folder in ("home", "ray"):
            (self.own / folder).mkdir(parents=True, exist_ok=True)
        setup = (
            f"mount --make-rprivate /; mount --bind {self.own}/home {self.home}; "
            f"mount --bind {self.own}/ray {SESSIONS}; mount -t tmpfs tmpfs /dev/shm; "
            f"hostname {name}; ip link set lo up; touch {self.own}/up; "
            "while :; do sleep 99 & wait; done"  # the first process buries all others
        )
        (self.own / "up").unlink(missing_ok=True)
        words = ["unshare", "-n", "-p", "-m", "-u", "-f", "--mount-proc", "--kill-child"]
        self._unshare = subprocess.Popen([*words, "sh", "-ec", setup])
        while not (self.own / "up").exists():
            assert self._unshare.poll() is None
            time.sleep(0.01)
        self.pid = child_of(self._unshare.pid)
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            **SETTINGS,
        }

    def start(self, *words, cwd=None, environment=(), **arguments):
        """Start a command on the host."""
        enter = ["nsenter", "-t", str(self.pid), "-n", "-p", "-m", "-u"]
        settings = {**self.environment, **dict(environment)}
        inside = ["env", "-i", "-C", str(cwd or self.home)]
        inside += [f"{key}={value}" for key, value in settings.items()]
        return subprocess.Popen([*enter, *inside, *map(str, words)], text=True, **arguments)

    def run(self, *words, check=True, timeout=180, **arguments):
        """Run a command on the host to its end; its output and exit code."""
        out = subprocess.PIPE
        process = self.start(*words, stdout=out, stderr=subprocess.STDOUT, **arguments)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            raise AssertionError(f"{words} on {self.name} takes too long:\n{output}") from None
        if check:
            assert process.returncode == 0, f"{words} on {self.name}:\n{output}"
        return process.returncode, output

    def running(self):
        """What runs on the host."""
        return self.run("ps", "-A", "-o", "args")[1]

    def signal(self, process, number):
        """Send a signal to a command that was started here: nsenter does not pass it on."""
        os.kill(child_of(process.pid), number)

    def end(self, process):
        """End a command that was started here, and not only the nsenter around it."""
        with contextlib.suppress(IndexError, FileNotFoundError, ProcessLookupError):
            self.signal(process, signal.SIGKILL)
        process.kill()
        process.wait()

    def link(self, state):
        """Cut the host's cable (`down`), or put it back (`up`)."""
        enter = ["nsenter", "-t", str(self.pid), "-n"]
        subprocess.run([*enter, "ip", "link", "set", "eth0", state], check=True)

    def kill(self):
        """Take the host away, with every process on it, at once."""
        if self._unshare.poll() is None:  # else the number may be another's by now
            os.kill(self.pid, signal.SIGKILL)
            self._unshare.wait()


class Lab:
    """Hosts on one switch; the folder `shared` is a disk that all of them see."""

    def __init__(self):
        self.base = Path(tempfile.mkdtemp(prefix="rulesweep-lab-", dir="/var/tmp"))
        for folder in ("home", "shared", "hosts"):
            (self.base / folder).mkdir()
        SESSIONS.mkdir(exist_ok=True)
        self.shared, self.hosts = self.base / "shared", {}
        self.laptop = self.host("laptop", ray=False)  # the switch is in its network

    def host(self, name, *, ray=True):
        """A new host, connected."""
        address = f"10.93.0.{len(self.hosts) + 1}"
        new = self.hosts[name] = Host(name, address, self.base)
        switch = ["nsenter", "-t", str(self.hosts["laptop"].pid), "-n", "ip", "link"]
        if name == "laptop":
            new.run("ip", "link", "add", "name", "eth0", "type", "bridge")
        else:
            words = ["add", "name", f"to-{name}", "type", "veth"]
            words += ["peer", "name", "eth0", "netns", str(new.pid)]
            subprocess.run([*switch, *words], check=True)
            subprocess.run([*switch, "set", f"to-{name}", "master", "eth0", "up"], check=True)
        new.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        new.run("ip", "link", "set", "eth0", "up")
        new.run("ip", "route", "add", "default", "dev", "eth0")  # so that Ray finds its address
        if ray and self.hosts:
            self.trust(new)
        return new

    def trust(self, host):
        """Give a host the cluster's token."""
        (host.own / "home" / ".ray").mkdir(exist_ok=True)
        (host.own / "home" / ".ray" / "auth_token").write_text("6c" * 32)
        (host.own / "home" / ".ray" / "auth_token").chmod(0o600)

    def dashboard(self, host):
        """Let the head's dashboard be at a host's port 8265, as ssh would."""
        return host.start("python", FORWARD, DASHBOARD, str(self.shared / "dashboard"))

    def wait(self, condition, process, seconds=240):
        """Wait until a condition holds, as long as a process runs."""
        for _ in range(seconds * 20):
            if condition():
                return
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        raise AssertionError("it takes too long")

    def close(self):
        """Take all hosts away."""
        for host in reversed(self.hosts.values()):
            host.kill()
        shutil.rmtree(self.base, ignore_errors=True)


@pytest.fixture(scope="session")
def lab():
    """A laptop on a switch; skipped, with the reason, where such hosts cannot be made."""
    if reason := missing():
        pytest.skip(reason)
    made = Lab()
    yield made
    made.close()


def worker(head, host):
    """Keep a worker's Ray running, as an init system would."""
    join = f"ray start --address={head.address}:6379 --num-cpus=1 --block --object-store-memory=1"
    loop = f"while :; do {join}00000000; sleep 1; done"
    with (host.own / "ray.log").open("w") as log:
        return host.start("sh", "-c", loop, stdout=log, stderr=log)


@pytest.fixture(scope="module")
def cluster(lab):
    """A head and two workers, and the head's dashboard forwarded to the laptop."""
    lab.trust(lab.laptop)
    head, *others = (lab.host(name) for name in ("one", "two", "three"))
    words = ["ray", "start", "--head", "--port=6379", f"--node-ip-address={head.address}"]
    words += ["--num-cpus=1", "--dashboard-host=127.0.0.1", "--object-store-memory=100000000"]
    head.run(*words)
    processes = [worker(head, host) for host in others]
    pipe = str(lab.shared / "dashboard")
    processes += [head.start("python", FORWARD, pipe, DASHBOARD), lab.dashboard(lab.laptop)]
    for host, process in zip(others, processes, strict=False):
        log = host.own / "ray.log"
        lab.wait(lambda log=log: "Ray runtime started" in log.read_text(), process)
    yield lab
    for host in (head, *others):
        host.kill()
    for process in processes:
        lab.laptop.end(process)
