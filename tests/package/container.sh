# shellcheck shell=bash disable=SC2034,SC2154
# What tests/package/run and tests/package/wheel share: an engine, which is the one that `docker`
# talks to, or one of their own below build/compose; and checks, one line for each. Sourced by them,
# after they have set root, log and the name of their container.
kept=$root/build/compose base=debian:bookworm-slim own_engine=''
passed=0 failed=0 start=$EPOCHSECONDS

clear_containers() { docker rm -f "$name" "$name-systemd" >/dev/null 2>&1 || true; }
cleanup() {
  clear_containers
  docker rmi "$name" >/dev/null 2>&1 || true
  if [[ -n $own_engine ]]; then "$root/tests/compose/engine" down "$kept"; fi
}
trap cleanup EXIT
if ! docker version >/dev/null 2>&1; then
  "$root/tests/compose/engine" up "$kept"
  own_engine=1
  export DOCKER_HOST=unix://$kept/docker.sock
fi
"$root/tests/compose/engine" base "$base" "$kept"
: >"$log"

check() { # check WHAT COMMAND...
  local begin=$EPOCHREALTIME code=0 own=$log.one
  "${@:2}" >"$own" 2>&1 </dev/null || code=$?
  printf '%-6s %5.1f s  %s\n' "$( ((code)) && echo FAILED || echo ok)" \
    "$(((${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}) / 100000))e-1" "$1"
  { printf '== %s\n' "$1"; cat "$own"; } >>"$log"
  if ((code)); then
    failed=$((failed + 1))
    tail -n 30 "$own" | sed 's/^/       | /'
  else passed=$((passed + 1)); fi
  rm -f "$own"
}
count() { # count WHAT: the last line; exit code 1 when a check failed
  printf '%s: %d passed, %d failed, %d s; log: %s\n' "$1" "$passed" "$failed" \
    $((EPOCHSECONDS - start)) "${log#"$root"/}"
  ((failed == 0))
}
