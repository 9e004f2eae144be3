"""MPI programs from Python: spawn(..., mpi=True)."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import meshbus

RING = Path(__file__).resolve().parent.parent / "integration/mpi/ring.c"
pytestmark = pytest.mark.skipif(shutil.which("mpicc.mpich") is None,
                                reason="needs MPICH and its compiler")


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("mpi") / "ring"
    subprocess.run(["mpicc.mpich", "-O1", "-o", program, RING], check=True)
    return str(program)


def test_ranks_are_one_job(hosts: meshbus.HostMesh, ring: str) -> None:
    lines: list[str] = []
    with hosts.spawn([ring], per_host=4, mpi=True,
                     on_output=lambda rank, text: lines.append(text)) as mesh:
        outcome = mesh.wait(60)
    assert outcome.exit_code == 0 and outcome.trouble is None
    assert "right" in "".join(lines)
    assert f"of {len(outcome.ranks)}" in "".join(lines)


def test_why_it_ended_is_in_the_exception(hosts: meshbus.HostMesh, ring: str) -> None:
    # No rank fails here, and the others would wait for ever.
    with pytest.raises(meshbus.MeshFailure, match="rank 1 ended with exit 0 between") as failure:
        hosts.spawn([ring, "exit", "1", "0"], per_host=2, mpi="pmi1").wait(60)
    assert failure.value.trouble is not None
    assert failure.value.report.rank == 1
    with hosts.spawn([ring, "abort", "0", "7"], per_host=2, mpi=True,
                     on_failure=lambda report: None) as mesh:
        outcome = mesh.wait(60)
    assert outcome.exit_code == 7
    assert outcome.trouble == "MPI_Abort(7) by rank 0"


def test_what_does_not_fit_is_refused(hosts: meshbus.HostMesh, ring: str) -> None:
    with pytest.raises(meshbus.ConfigurationError, match="mpi is 'slurm'; there are: pmi1, pmix"):
        hosts.spawn([ring], mpi="slurm")
    with pytest.raises(meshbus.ConfigurationError, match="which needs --mpi=pmi1"):
        hosts.spawn([ring], mpi="pmix")
    with pytest.raises(meshbus.ConfigurationError, match="restarts need Gang::all"):
        hosts.spawn([ring], mpi=True, restart=meshbus.Restart())
