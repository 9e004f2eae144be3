"""A Slurm of one node on this machine, for what compares with srun (packages slurmctld, slurmd,
slurm-client and munge). Needs root, and a network namespace of its own."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

LIMIT = 30.0
# Slurm resolves no name or address on a machine that has none but 127.0.0.1.
ADDRESS = ["192.0.2.1/32", "dev", "lo"]
PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "mungekey")


def missing():
    """The first program that is not installed, or None."""
    os.environ["PATH"] += ":/usr/sbin"
    return next((name for name in PROGRAMS if shutil.which(name) is None), None)


class SlurmNode:
    """Up when it is entered; its daemons have ended when it is left."""

    def __enter__(self):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory(prefix="slurm-")
        self.daemons = []
        os.chmod(self.folder.name, 0o755)
        for name, mode in (("munge", 0o700), ("sock", 0o755), ("state", 0o755), ("spool", 0o755)):
            os.mkdir(self.at(name))
            os.chmod(self.at(name), mode)
        self.conf = self.at("slurm.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(self.settings())
        os.environ["SLURM_CONF"] = self.conf
        subprocess.run(["ip", "address", "add", *ADDRESS], check=True)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.end_steps()
        subprocess.run(["ip", "address", "delete", *ADDRESS], check=True)
        self.folder.cleanup()

    def end_steps(self):
        """What keeps the steps of jobs lives on until these are over: they had our settings."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    is_ours = f"SLURM_CONF={self.conf}".encode() in file.read().split(b"\0")
            except OSError:
                continue
            if is_ours and int(name) != os.getpid():
                os.kill(int(name), signal.SIGKILL)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def settings(self):
        """slurm.conf; what it does not say is as Debian's Slurm has it."""
        host = os.uname().nodename
        return f"""ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.at("sock/munge")}
CredType=cred/munge
StateSaveLocation={self.at("state")}
SlurmdSpoolDir={self.at("spool")}
SlurmctldPidFile={self.at("ctld.pid")}
SlurmdPidFile={self.at("slurmd.pid")}
SlurmctldLogFile={self.at("ctld.log")}
SlurmdLogFile={self.at("slurmd.log")}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=5
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

    def start(self):
        key, socket = self.at("munge/key"), self.at("sock/munge")
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True)
        self.daemon(
            "munged",
            "--force",
            "--foreground",
            f"--key-file={key}",
            f"--socket={socket}",
            f"--pid-file={self.at('munge/pid')}",
            f"--log-file={self.at('munge/log')}",
            f"--seed-file={self.at('munge/seed')}",
        )
        self.wait(lambda: os.path.exists(socket), "munged made no socket")
        self.daemon("slurmctld", "-D", "-f", self.conf)
        self.daemon("slurmd", "-D", "-N", "one", "-f", self.conf)
        self.wait(self.is_idle, "the node did not become idle")

    def daemon(self, *argv):
        quiet = subprocess.DEVNULL
        self.daemons.append(
            # pylint: disable=consider-using-with
            subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet)
        )

    @staticmethod
    def is_idle():
        asked = subprocess.run(
            ["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip() == "1"

    @staticmethod
    def wait(condition, problem):
        end = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"slurm: {problem} within {LIMIT:.0f} s")
            time.sleep(0.1)  # sleep-ok: nothing tells when a daemon of others is up
