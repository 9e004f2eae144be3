# shellcheck shell=bash disable=SC2154
# ./dev package-test: installs the packages of build/packages, uses and purges them. Sourced by dev.
package_test_verb() {
  (($# == 0)) || die 2 "package-test takes no arguments"
  local needed=(python3)
  if ! docker version &>/dev/null; then needed+=("${engine_packages[@]}"); fi
  setup "${needed[@]}"
  [[ -n $(echo build/packages/meshbus_*.deb) && -f $(echo build/packages/meshbus_*.deb) ]] ||
    (. tests/dev/verbs/package.sh && package_verb)
  step "packages in a clean Debian 12: installed, used, purged without a trace" tests/package/run
}
