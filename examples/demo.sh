#!/usr/bin/env bash
# The demo: two hosts on this machine, 2 x 4 procs. A real job over the bus, a kill -9 that is told
# truly and once, and nothing left.
#   examples/demo.sh BIN      BIN: the folder of the built programs (./dev demo passes build/release/bin)
set -euo pipefail

bin=$(cd "${1:?usage: examples/demo.sh BIN}" && pwd)
work=$(mktemp -d /tmp/meshbus-demo.XXXXXX)
export XDG_RUNTIME_DIR=$work/run     # sockets of this demo only
export DEMO_MARK=$$.$RANDOM       # every process of the demo inherits this mark, so that we can look for what is left
unset MESHBUS_HOSTS
mkdir -m 700 "$XDG_RUNTIME_DIR"
hosts_pids=() controller=""

# Pids of live processes that carry the mark, but for this shell and what it runs to look.
survivors() {
  local entry pid state
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] || continue
    grep -qzxF "DEMO_MARK=$DEMO_MARK" "$entry/environ" 2>/dev/null || continue
    state=$(awk '{print $3}' <(sed 's/.*)/x x/' "$entry/stat" 2>/dev/null) 2>/dev/null) || continue
    case $state in '' | Z) ;; *) [ "$(awk '/^PPid/{print $2}' "$entry/status" 2>/dev/null)" = \
      "$BASHPID" ] || echo "$pid" ;; esac
  done
}
cleanup() {
  local pid
  for pid in ${controller:+"$controller"} "${hosts_pids[@]}"; do kill "$pid" 2>/dev/null ||
    true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }
fail() { echo "demo: FAILED: $*" >&2; exit 1; }
# await SECONDS COMMAND...: until the command succeeds
await() {
  local until=$((SECONDS + $1)); shift
  until "$@"; do [ $SECONDS -lt $until ] || return 1; read -r -t 0.02 <> <(:) || true; done
}
field() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$1" |
  head -1; }   # field FILE NAME: of one line of JSON

say "1. Two hosts on this machine (each: a warden with a broker, an agent and a keeper), and a controller that watches them"
for i in 0 1; do
  "$bin/meshbus" host >"$work/host$i" 2>"$work/host$i.err" &
  hosts_pids+=($!)
done
for i in 0 1; do await 10 test -s "$work/host$i" ||
  { cat "$work/host$i.err" >&2; fail "host $i did not start"; }; done
H0=$(field "$work/host0" host) H1=$(field "$work/host1" host)
"$bin/meshbus-controller" --hosts "$H0,$H1" >"$work/events" 2>"$work/controller.err" &
controller=$!
cat <<PICTURE

      this shell ── meshbus run ──────┐                        controller (polls, prints what changed)
                                      ▼                              │
      host 0  $(field "$work/host0" containment)             host 1
      ┌───────────────────────────┐   ┌───────────────────────────┐
      │ broker ◀──── link ────────┼───┼─▶ broker                  │
      │ agent, keeper             │   │   agent, keeper           │
      │ [0] [1] [2] [3]           │   │   [4] [5] [6] [7]         │     mesh: host=2 x gpus=4
      └───────────────────────────┘   └───────────────────────────┘
PICTURE

say "2. A real job: 8 ranks count the lines of the headers below /usr/include, and gather their sums over the bus at rank 0"
"$bin/meshbus" run --mesh --hosts "$H0,$H1" --per-host gpus=4 --json "$work/job.json" -- \
  "$bin/count_lines" /usr/include | tee "$work/job.out"
together=$(sed -n 's/.*total: \(.* files, .* lines\) from 8 ranks.*/\1/p' "$work/job.out")
alone=$("$bin/count_lines" --alone /usr/include |
  sed -n 's/.*total: \(.* files, .* lines\) from .*/\1/p')
echo "one process alone counts: $alone"
[ -n "$together" ] && [ "$together" = "$alone" ] ||
  fail "the mesh says '$together', one process says '$alone'"
echo "=> the same"

say "3. Rank 5 is killed with SIGKILL, in the middle of its work"
cat >"$work/worker.sh" <<'WORKER'
echo "step 1 done" >&2
echo "step 2: loading shard $RANK" >&2
echo $$ >"$PIDS/$RANK.tmp" && mv "$PIDS/$RANK.tmp" "$PIDS/$RANK"
exec sleep 60
WORKER
mkdir "$work/pids"
PIDS=$work/pids "$bin/meshbus" run --hosts "$H0,$H1" --per-host gpus=4 --name train --json \
  "$work/kill.json" -x PIDS="$work/pids" -- sh "$work/worker.sh" >"$work/kill.out" \
  2>"$work/kill.err" &
launcher=$!
await 10 test -e "$work/pids/5" || fail "rank 5 did not start"
for r in 0 1 2 3 4 6 7; do await 10 test -e "$work/pids/$r" || fail "rank $r did not start"; done
victim=$(cat "$work/pids/5")
# The controller must have seen it alive, or its end could not be news.
await 10 grep -q "\"pid\": *$victim[,}]" "$work/events" ||
  fail "the controller did not see pid $victim"
"$bin/meshbus" ps --hosts "$H0,$H1"
echo; echo "kill -9 $victim"
kill -9 "$victim"
code=0; wait "$launcher" || code=$?
grep '^meshbus' "$work/kill.err"
echo "exit code of the run: $code"
[ "$code" = 137 ] || fail "expected exit code 137"
grep -q 'first failure: rank 5 .*host=1.*SIGKILL' "$work/kill.err" ||
  fail "the report does not name rank 5, its host and SIGKILL"
grep -q 'step 2: loading shard 5' "$work/kill.err" ||
  fail "the report lacks the last lines of stderr"

say "4. What the controller said of it"
told() { [ "$(grep -c "\"rank\": *5,.*\"state\": *\"killed\"" "$work/events")" -ge 1 ]; }
await 5 told || {
  cat "$work/events" "$work/controller.err" >&2
  fail "the controller did not report rank 5"
}
grep '"state": *"killed"' "$work/events"
# A controller that said it again would do so in one of its next polls, one second apart.
polls() { [ "$(($(date +%s%N) / 1000000 - said))" -ge 2200 ]; }
said=$(($(date +%s%N) / 1000000)); await 4 polls || true
[ "$(grep -c '"state": *"killed"' "$work/events")" = 1 ] ||
  fail "the controller said it more than once"
echo "=> once"

say "5. Shut down, and look for what is left"
"$bin/meshbus" shutdown --hosts "$H0,$H1"
kill "$controller"
for pid in "$controller" "${hosts_pids[@]}"; do wait "$pid" 2>/dev/null || true; done
controller="" hosts_pids=()
left() { [ -z "$(survivors)" ]; }
await 2 left || {
  for pid in $(survivors); do tr '\0' ' ' <"/proc/$pid/cmdline"; echo "($pid)"; done >&2
  fail "processes are left"
}
files=$(find "$XDG_RUNTIME_DIR" -mindepth 2 2>/dev/null || true)
[ -z "$files" ] || { echo "$files" >&2; fail "files are left"; }
echo "=> no process, no socket, no file"
printf '\nThe demo took %s s.\n' "$SECONDS"
