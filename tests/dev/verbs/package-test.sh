# shellcheck shell=bash disable=SC2154
# ./dev package-test: installs the packages of build/packages, uses and purges them; then the wheel,
# with which all tests of the Python package run. Sourced by dev.
package_test_verb() {
  local kinds=("$@") needed=(python3)
  if (($# == 0)); then kinds=(packages wheel); fi
  [[ $# -le 1 && " packages wheel " == *" ${kinds[0]} "* ]] ||
    die 2 "package-test: \"$*\" is not understood" "Usage: ./dev package-test [packages|wheel]"
  if ! docker version &>/dev/null; then needed+=("${engine_packages[@]}"); fi
  setup "${needed[@]}"
  local kind
  for kind in "${kinds[@]}"; do "test_$kind"; done
}
test_packages() {
  [[ -n $(echo build/packages/meshbus_*.deb) && -f $(echo build/packages/meshbus_*.deb) ]] ||
    (. tests/dev/verbs/package.sh && package_verb)
  step "packages in a clean Debian 12: installed, used, purged without a trace" tests/package/run
}
test_wheel() {
  . tests/dev/verbs/python-path.sh
  build_python
  step "the wheel in a clean Debian 12: installed by pip, all tests of Python" tests/package/wheel
}
