# shellcheck shell=bash
# Sets fixed_addresses: what a command with sanitizers begins with. Meant to be sourced, after
# output.sh.
#
# g++ 12's AddressSanitizer cannot live with more than 28 random bits in addresses, which newer
# kernels use: a program then dies at its start, or prints DEADLYSIGNAL without end. Where there may
# be more (or only root may look), tests run without randomization; children inherit that.
fixed_addresses=()
choose_addresses() {
  local bits=''
  { read -r bits </proc/sys/vm/mmap_rnd_bits; } 2>/dev/null || true
  [[ -z $bits ]] || ((bits > 28)) || return 0
  if setarch -R true 2>/dev/null; then
    fixed_addresses=(setarch -R)
  elif [[ -n $bits ]]; then
    local what="programs with AddressSanitizer would die or hang at their start"
    die 1 "vm.mmap_rnd_bits is $bits and setarch -R is not allowed here: $what" \
      "On the host: sysctl -w vm.mmap_rnd_bits=28. Or allow personality(2) in the container."
  else
    note "warning: neither vm.mmap_rnd_bits can be read nor setarch -R used here;" \
      "should the tests hang or die at their start, have"
    note "root set vm.mmap_rnd_bits to 28."
  fi
}
