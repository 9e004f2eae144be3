# shellcheck shell=bash disable=SC2164
# inside_wheel.sh STEP: a step of tests/package/wheel, in the container. The wheel is in /wheel, the
# tests are in /source.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
python=/venv/bin/python3
fail() { echo "$*"; exit 1; }
apt() { apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends "$@"; }
# All that is in the environment.
survey() { find /venv ! -name __pycache__ ! -name '*.pyc' | sort; }

dependencies() {
  apt update
  # pip for the environment, and what the package needs; the others are for the tests.
  apt install python3-venv python3-cloudpickle \
    python3-pytest python3-numpy python3-zmq python3-flatbuffers flatbuffers-compiler mypy procps
}
install() {
  python3 -m venv --system-site-packages /venv
  survey >/tmp/before
  /venv/bin/pip install --no-index --no-cache-dir /wheel/meshbus-*.whl
  /venv/bin/pip check
}
places() {
  cd /tmp
  "$python" - <<'PYTHON'
import importlib.metadata
import meshbus
import meshbus._client
import meshbus._proc

programs = meshbus.versions()["program"]
for path in (meshbus.__file__, meshbus._client.__file__, meshbus._proc.__file__, programs):
    assert path.startswith("/venv/lib/python3.11/site-packages/meshbus/"), path
assert importlib.metadata.version("meshbus") == meshbus.__version__
points = importlib.metadata.entry_points(group="pytest11")
assert any(point.value == "meshbus.pytest_plugin" for point in points), points
PYTHON
  [[ $(/venv/bin/meshbus --version) == "meshbus "* ]] || fail "no /venv/bin/meshbus"
  [[ -z $(command -v meshbus) ]] || fail "another meshbus is in PATH"
  local file
  for file in /venv/lib/python3.11/site-packages/meshbus/{_bin/*,*.so} \
    /venv/lib/python3.11/site-packages/meshbus.libs/*; do
    if ldd "$file" | grep "not found"; then fail "$file lacks a library"; fi
  done
  "$python" -m pytest --markers | grep -F "pytest.mark.meshbus("
}
tests() {
  rm -f /tmp/counted
  cd /
  local code=0
  /source/tests/python/run --installed "$python" >/tmp/output 2>&1 || code=$?
  cat /tmp/output
  tail -n 1 /tmp/output >/tmp/counted
  return "$code"
}
remove() {
  /venv/bin/pip uninstall -y meshbus
  survey >/tmp/after
  diff /tmp/before /tmp/after || fail "the difference is above"
}
"$1"
