# shellcheck shell=bash disable=SC2154 source-path=SCRIPTDIR
# ./dev bench: sourced by dev.
bench_verb() {
  local targets=(meshbus-bench) peers
  if [[ -z ${1:-} ]]; then exec tests/bench/run; fi
  peers=$(tests/bench/run --peers "$1") || exit
  setup "${packages[@]}"
  if [[ -n $peers ]]; then
    local -n wanted=${peers}_packages
    if [[ -n $(missing_packages "${wanted[@]}") ]]; then
      (setup "${wanted[@]}") || note "going on without what is missing of: ${wanted[*]}"
      rm -f build/release/build.ninja # cmake has to look for it again
    fi
  fi
  if [[ $1 == mesh ]]; then targets=(meshbus-bench-mesh); fi
  if [[ $1 == python ]]; then
    . "$root/tests/dev/verbs/python-path.sh"
    build_python
    targets=(echo_proc meshbus-bench-public) # what it measures, and the floor in C++
  fi
  build release ON "${targets[@]}"
  cd "$here"
  step "bench $1" "$root/tests/bench/run" "$@"
}
