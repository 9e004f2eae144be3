# shellcheck shell=bash disable=SC2154
# ./dev package: the Debian packages, in build/packages. Sourced by dev.
package_verb() {
  (($# == 0)) || die 2 "package takes no arguments"
  setup "${packages[@]}" "${python_packages[@]}" "${package_packages[@]}"
  build package OFF
  rm -rf build/packages
  step "pack (cpack; output: build/packages.log)" quietly build/packages.log pack
  step "lintian" tests/package/lintian build/packages
  note "the packages are in $root/build/packages:"
  (cd build/packages && for file in *.deb; do
    note "$(printf '%5.1f MB  %s' "$(($(stat -c %s "$file") / 100000))e-1" "$file")"
  done)
}
pack() {
  (cd build/package && cpack)
  rm -rf build/packages/_CPack_Packages
  cmake/packages/finish build/packages
}
