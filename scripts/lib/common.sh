# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts: where the tree is, and what the machine must have. Sourced, not run.
set -euo pipefail
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
# One ccache for all clones: what is equal is compiled once, wherever its folder is.
export CCACHE_BASEDIR=${CCACHE_BASEDIR-$root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# Debian 12's packages. What builds and runs; what tests need besides; what the examples of CI's languages need (others are
# larger: scripts/examples --all); what makes packages; what only lint, fuzzing and the count of costs need.
packages_build="cmake ninja-build g++ ccache pkg-config libzmq3-dev cppzmq-dev libmsgpack-cxx-dev libboost-dev
  libexpected-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libspdlog-dev libcurl4-openssl-dev libabsl-dev
  libxxhash-dev libjemalloc-dev libsqlite3-dev libpq-dev libssl-dev libjs-dygraphs prometheus-cpp-dev libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev"
packages_test="chromium python3 python3-zmq python3-msgpack mypy curl openssl systemd scdoc mandoc zsh fish iproute2 postgresql prometheus prometheus-alertmanager"
packages_examples="gcc make libzmq5 libmsgpack-dev luajit lua-messagepack perl libzmq-ffi-perl libdata-messagepack-perl
  php-cli php-zmq php-msgpack ruby ruby-ffi-rzmq ruby-msgpack"
packages_package="python3 scdoc dpkg-dev file"
packages_release="python3-setuptools python3-wheel"
packages_lint="clang-format-14 clang-tidy-14"
packages_fuzz="clang-14 libclang-rt-14-dev"
packages_costs="valgrind binutils"

# What a user runs; all else that is built is for those who change it.
programs="lanemq-broker lanemq-worker lanemq lanemq-gateway lanemq-upstream"

# need PACKAGE...: installs what is missing, once.
need() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] || "$root/scripts/deps" "${missing[@]}"
}

# need_modules DIR: npm's packages as the lock file of a directory names them, installed once.
need_modules() {
  command -v node >/dev/null && command -v npm >/dev/null || "$root/scripts/deps" nodejs npm
  if [ ! -d "$1/node_modules" ] || [ "$1/package-lock.json" -nt "$1/node_modules" ]; then
    (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) && touch "$1/node_modules"
  fi
}

# configure PRESET: makes the build directory of a preset if there is none, or an older one.
configure() {
  local preset=$1 dir=build
  [ "$preset" = release ] || dir=build/$preset
  if [ ! "$dir/build.ninja" -nt CMakePresets.json ]; then
    cmake --preset "$preset" ${CXX:+-DCMAKE_CXX_COMPILER="$CXX"} -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >"/tmp/lanemq-configure.$$" 2>&1 ||
      { cat "/tmp/lanemq-configure.$$" >&2; die "the build could not be configured"; }
    rm -f "/tmp/lanemq-configure.$$"
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  need $packages_build
  configure "$preset"
  cmake --build --preset "$preset" ${1:+--target "$@"} -- --quiet >&2
}
