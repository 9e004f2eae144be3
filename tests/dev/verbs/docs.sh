# shellcheck shell=bash disable=SC2154
# ./dev docs: checks docs/ and makes a site of it, in build/docs/site. Sourced by dev.
docs_verb() {
  (($# == 0)) || die 2 "docs takes no arguments"
  setup python3 "${docs_packages[@]}"
  build release OFF meshbus
  step "reference pages are as the sources say" \
    tests/docs/reference.py --check --program build/release/bin/meshbus
  step "links lead somewhere" tests/docs/links.py
  step "commands in the text are those that there are" tests/docs/commands.py
  step "site (mkdocs)" tests/docs/site
}
