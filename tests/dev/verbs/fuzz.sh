# shellcheck shell=bash disable=SC2154
# ./dev fuzz: sourced by dev.
fuzz_verb() {
  local target='' seconds=60 argument targets
  targets=$(cd tests/fuzz && printf '%s ' *.cpp | sed 's/\.cpp//g')
  for argument in "$@"; do
    if [[ $argument =~ ^[0-9]{1,6}$ ]]; then seconds=$argument; else target=$argument; fi
  done
  (($# <= 2)) && [[ -z $target || -f tests/fuzz/$target.cpp ]] ||
    die 2 "fuzz: \"$*\" is not understood" \
      "Usage: ./dev fuzz [TARGET] [SECONDS]; targets: $targets"
  setup "${packages[@]}" "${clang_packages[@]}"
  build fuzz OFF "${target:+fuzz_}${target:-meshbus_fuzz_targets}"
  choose_addresses
  step "fuzz ${target:-all targets}, $seconds s each" \
    "${fixed_addresses[@]}" tests/fuzz/run build/fuzz "$seconds" \
    ${target:+"$target"}
}
