# shellcheck shell=bash disable=SC2154
# ./dev compose-test: sourced by dev.
compose_test_verb() {
  (($# == 0)) || die 2 "compose-test takes no arguments"
  local needed=(python3 python3-yaml)
  if ! docker version &>/dev/null; then needed+=("${engine_packages[@]}"); fi
  docker compose version &>/dev/null || command -v docker-compose >/dev/null ||
    needed+=(docker-compose)
  setup "${needed[@]}"
  docker version &>/dev/null || ((EUID == 0)) ||
    die 1 "no Docker engine answers (docker version), and to start one takes root"
  step "docker/compose.yaml, and containers that are killed, paused and cut off" tests/compose/run
}
