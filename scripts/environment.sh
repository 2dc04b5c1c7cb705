# shellcheck shell=bash
# What every script starts with: `source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"`.
# Sets `root`, the repository's folder, and goes there; so every script works from any folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

# Debian's own tools, even where others (pyenv, conda, /usr/local) come first in PATH.
export PATH="/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
export CXX="${CXX:-g++}"

# usage LINE...: with -h or --help as the script's first argument, prints the lines and ends.
usage() {
  case "${script_arguments[0]:-}" in
    -h | --help)
      printf '%s\n' "$@"
      exit 0
      ;;
  esac
}

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# How many compilers may run at once: one for each processor, as long as each has 1.5 GiB.
jobs_that_fit() {
  local processors available_kib by_memory
  processors=$(nproc)
  available_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  by_memory=$((available_kib / (1536 * 1024)))
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((processors < by_memory ? processors : by_memory))
}

script_arguments=("$@")
