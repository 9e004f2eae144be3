# shellcheck shell=bash
# How ./dev and what it runs speak: steps with their times, notes, and failures that name the step.
# Meant to be sourced.
bold='' red='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'; fi
say() { printf '%s==>%s %s\n' "$bold" "$plain" "$*"; }
note() { printf '    %s\n' "$*"; }
die() { # die EXIT_CODE WHAT [WHAT TO DO...]
  local code=$1 line
  printf '%sdev:%s %s\n' "$red" "$plain" "$2" >&2
  for line in "${@:3}"; do printf '     %s\n' "$line" >&2; done
  exit "$code"
}
now_ms() { echo $((${EPOCHREALTIME//[!0-9]/} / 1000)); }
seconds() { printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100)); }

# step WHAT COMMAND...: prints what it does, does it, and prints how long it took. A failure ends
# the script and names the step (see on_exit).
current_step='' step_start=0
step() {
  current_step=$1 step_start=$(now_ms)
  say "$1"
  "${@:2}"
  note "took $(seconds $(($(now_ms) - step_start)))"
  current_step=''
}
on_exit() {
  local code=$?
  [[ -n $current_step && $code -ne 0 ]] || return 0
  printf '%sdev:%s failed (exit %d) after %s: %s\n' "$red" "$plain" "$code" \
    "$(seconds $(($(now_ms) - step_start)))" "$current_step" >&2
}
trap on_exit EXIT

# quietly LOG COMMAND...: its output goes to LOG, and is shown when it fails; meanwhile the last
# line of it is shown, on a terminal always the newest, elsewhere every 30 s. Returns the command's
# exit code.
quietly() {
  local log=$1 code watcher
  mkdir -p "$(dirname "$log")"
  : >"$log"
  show_progress "$log" "$BASHPID" &
  watcher=$!
  # No || here: that would switch off set -e within the command. It is in the foreground, so that
  # Ctrl-C ends it.
  set +e
  (set -e; bold="" red="" plain=""; "${@:2}") >"$log" 2>&1
  code=$?
  set -e
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  if [[ -t 1 ]]; then printf '\r\e[K'; fi
  if ((code)); then cat "$log" >&2; fi
  return "$code"
}
show_progress() { # show_progress LOG PID: until PID ends
  local line shown=$EPOCHSECONDS
  while kill -0 "$2" 2>/dev/null; do
    line=$(tail -n 1 "$1" | tr -d '\r')
    if [[ -t 1 ]]; then
      printf '\r\e[K    %.70s' "$line"
    elif ((EPOCHSECONDS - shown >= ${PROGRESS_SECONDS:-30})); then
      note "$line"
      shown=$EPOCHSECONDS
    fi
    read -r -t 0.5 <> <(:) || true
  done
}
