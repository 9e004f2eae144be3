# shellcheck shell=bash disable=SC2034
# The Debian packages that each verb of ./dev installs. Meant to be sourced.

# What the build needs. The tests (preset dev), `check` and `fuzz` have lists of their own: they
# bring several 100 MB of LLVM with them.
packages=(g++ cmake ninja-build ccache mold libzmq3-dev cppzmq-dev libsodium-dev
  libflatbuffers-dev flatbuffers-compiler libpoco-dev prometheus-cpp-dev libspdlog-dev
  libcli11-dev libexpected-dev nlohmann-json3-dev libtomlplusplus-dev libncurses-dev doctest-dev
  libbenchmark-dev libdw-dev libhwloc-dev)
# What only tests need: tests/dev/deal is Python, and examples/monitor.py a ZeroMQ tool in it.
test_packages=(python3 python3-zmq python3-flatbuffers python3-jsonschema openssh-client)
# MPI libraries, for which tests of run --mpi compile a program, and PMIx for the helper.
mpi_test_packages=(mpich libmpich-dev openmpi-bin libopenmpi-dev libpmix-dev python3-mpi4py)
# What the Python package needs: to be built, to send classes by value, and to be tested; the last
# three are in commands of the documents, which its tests type.
python_packages=(python3-dev pybind11-dev python3-cloudpickle python3-pytest python3-numpy mypy
  python3-venv patchelf curl iproute2 jq)
# Servers that tests start for themselves, to launch hosts over a real sshd and in a real Slurm job.
# Where systemd runs, installing one would make it serve this machine: they are installed only where
# it does not (containers). Tests that miss one are skipped and counted.
server_packages=(openssh-server munge slurm-client slurmctld slurmd)
# With what the page, notebooks and the metrics are tested: a browser, Jupyter, and Prometheus,
# which is a server too. CI has them (./dev setup page); elsewhere tests that miss one are skipped
# and counted.
page_packages=(chromium chromium-driver jupyter-notebook python3-ipykernel)
prometheus_packages=(prometheus)
check_packages=(clang-format-19 clang-tidy-19 python3 python3-yaml python3-jsonschema mkdocs)
clang_packages=(clang-19 libclang-rt-19-dev)
# What a lab of several hosts needs, on this machine alone and as root (tests/lab).
lab_packages=(iproute2 nftables iputils-ping python3)
# What some benchmarks compare with; only those install it, and do without what cannot be had.
nats_packages=(nats-server libnats-dev)
mpi_packages=(openmpi-bin)
ipyparallel_packages=(python3-ipyparallel)
supervisor_packages=(supervisor)
# For what others build against an installed meshbus.
consumer_packages=(make pkgconf)
# For docs.
docs_packages=(mkdocs)
# For package: what makes and judges the packages; libpmix for meshbus-mpi.
package_packages=(lintian dpkg-dev libpmix-dev pkgconf python3)
# For compose-test and package-test, where there is no Docker engine: one to start, and what makes
# its base image where none can be pulled.
engine_packages=(docker.io iptables iproute2 debootstrap)
