# Sourced by the scripts of ci/: where things are, how a step reports, how a preset is built.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${PARITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/parity}
cores=$(nproc)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# quiet TITLE COMMAND...: says the title; the command's output is shown only when it fails.
quiet() {
  local title=$1 log rc=0; shift
  say "$title"
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  if [ "$rc" -ne 0 ]; then
    tail -n 100 "$log" >&2
    rm -f "$log"
    die "failed ($rc): $*"
  fi
  rm -f "$log"
}

build_folder() { # PRESET
  case $1 in
    release | ci) say "$root/build" ;;
    *) say "$root/build/$1" ;;
  esac
}

# make_build PRESET: configures and builds it. PARITY_TORCH=OFF and PARITY_CUDA=OFF of the environment make the optimised build smaller.
make_build() {
  local preset=$1 folder options=()
  folder=$(build_folder "$preset")
  case $preset in
    release | ci) options=("-DPARITY_TORCH=${PARITY_TORCH:-ON}" "-DPARITY_CUDA=${PARITY_CUDA:-ON}") ;;
  esac
  cd "$root"
  quiet "configuring $folder" cmake --preset "$preset" "${options[@]}"
  sed 's/^/  /' "$folder/summary.txt"
  cmake --build "$folder" --parallel "$cores"
}
