# shellcheck shell=bash
# ./dev python-path: builds the Python package and prints the folder for PYTHONPATH. All else goes
# to stderr: export PYTHONPATH=$(./dev python-path)
python_path_verb() {
  (($# == 0)) || die 2 "python-path takes no arguments"
  build_python >&2
  printf '%s\n' "$root/build/release/python"
}
