# shellcheck shell=bash disable=SC2154
# ./dev python-path: builds the Python package and prints the folder for PYTHONPATH. All else goes
# to stderr: export PYTHONPATH=$(./dev python-path)
python_path_verb() {
  (($# == 0)) || die 2 "python-path takes no arguments"
  build_python >&2
  printf '%s\n' "$root/build/release/python"
}

# In build/release: an ordinary interpreter cannot load what has sanitizers.
build_python() {
  setup "${packages[@]}" "${python_packages[@]}"
  configure release OFF
  grep -qxF MESHBUS_PYTHON:BOOL=ON build/release/CMakeCache.txt ||
    step "configure build/release (with the Python package)" \
      cmake -DMESHBUS_PYTHON=ON --log-level=WARNING build/release
  build release OFF meshbus_python
}
