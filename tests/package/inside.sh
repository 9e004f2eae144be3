# shellcheck shell=bash
# inside.sh STEP: a step of tests/package/run, in the container. Packages are in /packages.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
ours=(/packages/meshbus_*.deb /packages/meshbus-mpi_*.deb /packages/libmeshbus*_*.deb
  /packages/python3-meshbus_*.deb /packages/meshbus-doc_*.deb)
names=()
for file in "${ours[@]}"; do
  file=${file##*/}
  if [[ $file != *-dbgsym_* ]]; then names+=("${file%%_*}"); fi
done
debs() { local n; for n in "${names[@]}"; do echo /packages/"$n"_*.deb; done; }
fail() { echo "$*"; exit 1; }
apt() { apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends "$@"; }
# Every path but what apt, dpkg and adduser keep for themselves (/etc/shadow- and its like).
survey() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /packages -o -path /tests \
    -o -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \
    -o -path /var/log -o -path /var/lib/systemd -o -path "/etc/*-" -o -path /run/adduser \) \
    -prune -o -print | sort
  cut -d: -f1 /etc/passwd /etc/group
  find /etc /var/log -name '*meshbus*'
  dpkg -l | awk '/^[a-z]/ {print $2, $1}'
}

dependencies() {
  # No documents are left out, as the small base image would.
  rm -f /etc/dpkg/dpkg.cfg.d/small
  apt update
  local needed
  # shellcheck disable=SC2046
  needed=$(apt-get -s --no-install-recommends install $(debs) | awk '$1 == "Inst" {print $2}' |
    grep -vxF "$(printf '%s\n' "${names[@]}")")
  # shellcheck disable=SC2086
  apt install $needed
  survey >/tmp/before
}
install() {
  # shellcheck disable=SC2046
  time apt install $(debs)
  dpkg -l | grep meshbus
}
sizes() {
  local bytes file
  bytes=$(cat /usr/bin/meshbus /usr/bin/meshbus-* | wc -c)
  echo "$bytes bytes of programs"
  ((bytes <= 15000000)) || fail "more than 15 MB"
}
places() {
  local path
  for path in /lib/systemd/system/meshbus-{host,controller}.service /etc/meshbus/config \
    /etc/default/meshbus-{host,controller} /usr/share/man/man1/meshbus-run.1.gz \
    /usr/share/man/man8/meshbus-controller.8.gz /usr/share/man/man1/meshbus-agent.1.gz \
    /usr/share/bash-completion/completions/meshbus /usr/share/zsh/vendor-completions/_meshbus \
    /usr/share/fish/vendor_completions.d/meshbus.fish /usr/share/doc/meshbus/README.md \
    /usr/share/doc/meshbus/docs/README.md /usr/share/doc/meshbus/examples/launcher.cpp; do
    [[ -e $path ]] || fail "no $path"
  done
  ldconfig -p | grep libmeshbus_client.so.0
  [[ $(getent passwd meshbus) == *:/var/lib/meshbus:* ]] || fail "no user meshbus"
  [[ $(stat -c '%U %a' /etc/meshbus/keys) == "meshbus 700" ]] || fail "/etc/meshbus/keys"
}
as_user() { # as a user who has nothing
  id tester >/dev/null 2>&1 || useradd -m tester
  (cd /home/tester && setpriv --reuid tester --regid tester --clear-groups env -i \
    HOME=/home/tester PATH=/usr/bin:/bin timeout 120 "$@")
}
job() {
  local out
  time out=$(as_user meshbus run --hosts 2 --per-host proc=2 -- sh -c 'echo $RANK of $WORLD_SIZE')
  [[ $out == *"3 of 4"* ]] || fail "$out"
  as_user meshbus --version
}
python() {
  cat >/tmp/job.py <<'PYTHON'
import meshbus


class Counter(meshbus.Actor):
    @meshbus.endpoint
    def add(self, n: int) -> int:
        return n + 1


with meshbus.start(hosts=1) as hosts, hosts.workers(per_host={"proc": 2}) as procs:
    print(list(procs.spawn(Counter).add(41)))
PYTHON
  [[ $(as_user python3 /tmp/job.py) == "[42, 42]" ]]
}
python_metadata() {
  as_user python3 - <<'PYTHON'
import importlib.metadata
import meshbus

assert importlib.metadata.version("meshbus") == meshbus.__version__
points = importlib.metadata.entry_points(group="pytest11")
assert [point.value for point in points] == ["meshbus.pytest_plugin"], points
# pip leaves it alone: it is dpkg's.
files = importlib.metadata.distribution("meshbus")
assert files.read_text("INSTALLER") == "debian\n" and files.read_text("RECORD") is None
PYTHON
}
links() { python3 -B /docs-tests/links.py /usr/share/doc/meshbus; }
cpp() {
  dpkg-query -W -f '${Package}\n' | sort >/tmp/installed
  apt install g++ cmake make pkgconf
  rm -rf /tmp/examples
  cmake -S /usr/share/doc/meshbus/examples -B /tmp/examples -DCMAKE_BUILD_TYPE=Release
  cmake --build /tmp/examples -j 2 --target guide launcher count_lines
  as_user /tmp/examples/guide
  # As the guide says.
  # shellcheck disable=SC2046
  (cd /tmp/examples && g++ -std=c++20 /usr/share/doc/meshbus/examples/hello.cpp \
    $(pkg-config --cflags --libs meshbus-client) -o hello)
  as_user /tmp/examples/hello
  # shellcheck disable=SC2046
  printf '%s\n' '#include <meshbus/address.h>' \
    'int main() { return meshbus::HostAddr::parse("tcp:h:1") ? 0 : 1; }' |
    g++ -std=c++20 -x c++ - -o /tmp/one $(pkg-config --cflags --libs meshbus-client)
  /tmp/one
  mkdir -p /tmp/wrong
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(x LANGUAGES CXX)' \
    'find_package(meshbus REQUIRED COMPONENTS clinet)' >/tmp/wrong/CMakeLists.txt
  local out
  if out=$(cmake -S /tmp/wrong -B /tmp/wrong/build 2>&1); then fail "component clinet is found"; fi
  out=$(tr -s ' \n' ' ' <<<"$out")
  [[ $out == *'meshbus has no component "clinet"'* ]] || fail "$out"
}
purge() {
  # What only the step before needed is gone before the last survey.
  local more
  more=$(dpkg-query -W -f '${Package}\n' | sort | comm -13 /tmp/installed -)
  # shellcheck disable=SC2086
  apt purge $more >/dev/null
  userdel -r tester 2>/dev/null || true
  apt purge "${names[@]}"
  survey >/tmp/after
  diff /tmp/before /tmp/after || fail "the difference is above"
}
"$1"
