# shellcheck shell=bash disable=SC2154
# ./dev lab: sourced by dev.
lab_verb() {
  [[ $# == 1 && $1 =~ ^[1-9][0-9]{0,2}$ ]] ||
    die 2 "lab needs a number of hosts" "Example: ./dev lab 3"
  ((EUID == 0)) || die 1 "a lab takes root: its hosts are made of network namespaces"
  setup "${packages[@]}" "${lab_packages[@]}"
  build dev ON
  choose_addresses
  say "a lab of $1 hosts; the programs are in $root/build/dev/bin"
  PATH=$root/build/dev/bin:$PATH "${fixed_addresses[@]}" \
    "$root/build/dev/bin/meshbus_lab_shell" "$1"
}
