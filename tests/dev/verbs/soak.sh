# shellcheck shell=bash disable=SC2154
# ./dev soak: sourced by dev. Long versions of tests, each an executable in tests/soak whose second
# line says what it does.
soak_verb() {
  local program
  if (($# == 0)); then
    note "./dev soak NAME; there are:"
    for program in tests/soak/*; do
      note "$(printf '%-10s %s' "${program##*/}" "$(sed -n '2s/^# //p' "$program")")"
    done
    return 0
  fi
  [[ $1 =~ ^[a-z0-9_-]+$ && -x tests/soak/$1 ]] ||
    die 2 "soak: there is no \"$1\"" "There are: $(cd tests/soak && printf '%s ' *)"
  if [[ $1 == orphans ]]; then
    setup "${packages[@]}" "${mpi_packages[@]}" "${mpi_test_packages[@]}" \
      "${supervisor_packages[@]}"
    setup_servers
  fi
  if [[ $1 == prometheus ]]; then
    setup "${packages[@]}"
    setup_prometheus
    build release OFF
  fi
  step "soak $*" "tests/soak/$1" "${@:2}"
}
