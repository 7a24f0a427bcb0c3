# Sourced by the scripts of ci/: where things are, and how a step reports.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${PARITY_BUILD:-$root/build}
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
